//! The kinds of joins.

use sqlparser::ast::{JoinConstraint, JoinOperator};

/// Returns true if a join keeps only matching rows.
pub(super) fn is_inner(operator: &JoinOperator) -> bool {
    matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_))
}

/// Returns true if a join keeps rows of the right table without a match in the left one.
pub(super) fn is_of_right_rows(operator: &JoinOperator) -> bool {
    use JoinOperator::{FullOuter, Right, RightAnti, RightOuter, RightSemi};
    matches!(operator, Right(_) | RightOuter(_) | FullOuter(_) | RightSemi(_) | RightAnti(_))
}

/// Returns the name of a join in error messages.
pub(super) fn name_of(operator: &JoinOperator) -> &'static str {
    use JoinOperator::{
        Anti, FullOuter, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti, RightOuter, RightSemi, Semi,
    };
    match operator {
        Left(_) | LeftOuter(_) => "left join",
        Right(_) | RightOuter(_) => "right join",
        FullOuter(_) => "full join",
        Semi(_) | LeftSemi(_) => "semi join",
        Anti(_) | LeftAnti(_) => "anti join",
        RightSemi(_) => "right semi join",
        RightAnti(_) => "right anti join",
        _ => "join",
    }
}

/// Returns the constraint of a join.
pub(super) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator::{
        Anti, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti, RightOuter,
        RightSemi, Semi,
    };
    match operator {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on)
        | Semi(on) | LeftSemi(on) | RightSemi(on) | Anti(on) | LeftAnti(on) | RightAnti(on) => Some(on),
        _ => None,
    }
}

/// Returns the columns that a join shares by USING.
pub(super) fn using(operator: &JoinOperator) -> Vec<String> {
    match constraint(&mut operator.clone()) {
        Some(JoinConstraint::Using(names)) => {
            let names = names.iter().filter_map(|name| name.0.first()?.as_ident());
            names.map(|name| name.value.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if a join has the columns of the left table alone.
pub(super) fn is_of_left_columns(operator: &JoinOperator) -> bool {
    use JoinOperator::{Anti, LeftAnti, LeftSemi, Semi};
    matches!(operator, Semi(_) | LeftSemi(_) | Anti(_) | LeftAnti(_))
}

/// Returns true if a join merges the columns of this name of both tables into one.
pub(super) fn has_once(operator: &JoinOperator, name: &str) -> bool {
    match constraint(&mut operator.clone()) {
        Some(JoinConstraint::Using(_)) => using(operator).iter().any(|column| column == name),
        Some(JoinConstraint::Natural) => true,
        _ => false,
    }
}
