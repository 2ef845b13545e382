//! Expressions that say the same, however they are written.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, ObjectNamePart};

use super::rewrite::is_family;

/// An expression without what makes no difference in a SELECT: parentheses, the names of tables, quotes, and the case of functions.
pub(super) fn plain(expr: &Expr) -> Expr {
    let mut expr = expr.clone();
    // It never breaks.
    _ = sqlparser::ast::visit_expressions_mut(&mut expr, |expr| {
        let made = match expr {
            Expr::Nested(inner) => (**inner).clone(),
            Expr::CompoundIdentifier(idents) => match &idents[..] {
                [.., of, name] if is_family(&of.value) => {
                    Expr::Identifier(Ident::new(format!("{}.{}", of.value, name.value)))
                }
                [.., name] => Expr::Identifier(Ident::new(name.value.clone())),
                [] => return ControlFlow::<()>::Continue(()),
            },
            Expr::Identifier(name) => Expr::Identifier(Ident::new(name.value.clone())),
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(name) = part {
                        name.value.make_ascii_lowercase();
                    }
                }
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        *expr = made;
        ControlFlow::Continue(())
    });
    expr
}

/// Whether a column that a SELECT shows is one that its rows are grouped by, named or numbered so: `m` and 1 of `select upper(label) m`.
pub(super) fn is_key(by: &[Expr], at: usize, alias: Option<&Ident>) -> bool {
    by.iter().any(|by| match by {
        Expr::Value(value) => value.to_string() == (at + 1).to_string(),
        Expr::Identifier(name) => alias.is_some_and(|alias| alias.value == name.value),
        _ => false,
    })
}
