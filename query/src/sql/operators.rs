//! The kinds of joins.

use sqlparser::ast::{JoinConstraint, JoinOperator};

/// Whether a join keeps only rows that meet.
pub(super) fn is_inner(operator: &JoinOperator) -> bool {
    matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_))
}

/// Whether a join keeps rows of the right table that meet none of the left one.
pub(super) fn is_of_right_rows(operator: &JoinOperator) -> bool {
    use JoinOperator::{FullOuter, Right, RightOuter};
    matches!(operator, Right(_) | RightOuter(_) | FullOuter(_))
}

/// What a join is called in what is refused.
pub(super) fn name_of(operator: &JoinOperator) -> &'static str {
    use JoinOperator::{
        Anti, FullOuter, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti, RightOuter, RightSemi, Semi,
    };
    match operator {
        Left(_) | LeftOuter(_) => "left join",
        Right(_) | RightOuter(_) => "right join",
        FullOuter(_) => "full join",
        Semi(_) | LeftSemi(_) | RightSemi(_) => "semi join",
        Anti(_) | LeftAnti(_) | RightAnti(_) => "anti join",
        _ => "join",
    }
}

/// What a join says of its tables.
pub(super) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    match operator {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on) => {
            Some(on)
        }
        _ => None,
    }
}

/// The columns that a join has of both tables by USING.
pub(super) fn using(operator: &JoinOperator) -> Vec<String> {
    match constraint(&mut operator.clone()) {
        Some(JoinConstraint::Using(names)) => {
            let names = names.iter().filter_map(|name| name.0.first()?.as_ident());
            names.map(|name| name.value.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a join chooses rows of one table by another, of which it has no columns.
pub(super) fn is_choice(operator: &JoinOperator) -> bool {
    use JoinOperator::{Anti, LeftAnti, LeftSemi, RightAnti, RightSemi, Semi};
    matches!(operator, Semi(_) | LeftSemi(_) | RightSemi(_) | Anti(_) | LeftAnti(_) | RightAnti(_))
}

/// Whether a join has the columns of this name of both tables as one.
pub(super) fn has_once(operator: &JoinOperator, name: &str) -> bool {
    match constraint(&mut operator.clone()) {
        Some(JoinConstraint::Using(_)) => using(operator).iter().any(|column| column == name),
        Some(JoinConstraint::Natural) => true,
        _ => false,
    }
}
