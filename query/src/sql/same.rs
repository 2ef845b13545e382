//! Equivalence of expressions, independent of notation.

use sqlparser::ast::{Expr, Ident, ObjectNamePart};

use super::{rewrite::is_family, walk::expressions_mut};

/// Removes differences in notation without meaning in a SELECT: parentheses, the names of tables, quotes, and the case of
/// functions.
pub(super) fn plain(expr: &Expr) -> Expr {
    let mut expr = expr.clone();
    expressions_mut(&mut expr, |expr| {
        let made = match expr {
            Expr::Nested(inner) => (**inner).clone(),
            Expr::CompoundIdentifier(idents) => match &idents[..] {
                [.., of, name] if is_family(&of.value) => {
                    Expr::Identifier(Ident::new(format!("{}.{}", of.value, name.value)))
                }
                [.., name] => Expr::Identifier(Ident::new(name.value.clone())),
                [] => return,
            },
            Expr::Identifier(name) => Expr::Identifier(Ident::new(name.value.clone())),
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(name) = part {
                        name.value.make_ascii_lowercase();
                    }
                }
                return;
            }
            _ => return,
        };
        *expr = made;
    });
    expr
}

/// Returns true if both are equivalent in a SELECT. If it joins tables, columns of one name may belong to two of them.
pub(super) fn is_same(one: &Expr, other: &Expr, is_joined: bool) -> bool {
    one == other || (!is_joined && plain(one) == plain(other))
}

/// Returns the name of a column without that of its table.
pub(super) fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(idents) => idents.last(),
        _ => None,
    }
}
