//! Walks over syntax trees. sqlparser compiles a whole walk for every type of visitor, a MiB of machine code each; here one type
//! per direction calls the visitor through its vtable, so there are two walks.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};

/// Defines a walk in one direction: the type that sqlparser sees, and the one that keeps the value with which a visitor breaks.
macro_rules! direction {
    ($walk:ident, $visit:ident, $visitor:ident, $by_vtable:ident, $kept:ident, $($mut:ident)?) => {
        /// Walks a part of a statement, until the visitor breaks.
        pub(super) fn $walk<V: $visitor>(part: &$($mut)? impl $visit, visitor: &mut V) -> ControlFlow<V::Break> {
            let mut kept = $kept { visitor, broke: None };
            _ = part.visit(&mut $by_vtable(&mut kept));
            kept.broke.map_or(ControlFlow::Continue(()), ControlFlow::Break)
        }

        struct $kept<'v, V: $visitor> {
            visitor: &'v mut V,
            broke: Option<V::Break>,
        }

        struct $by_vtable<'v>(&'v mut dyn $visitor<Break = ()>);

        direction! { methods $visitor, $by_vtable, $kept, ($($mut)?),
            (pre_visit_query, Query), (post_visit_query, Query),
            (pre_visit_select, Select), (post_visit_select, Select),
            (pre_visit_relation, ObjectName), (post_visit_relation, ObjectName),
            (pre_visit_table_factor, TableFactor), (post_visit_table_factor, TableFactor),
            (pre_visit_expr, Expr), (post_visit_expr, Expr),
            (pre_visit_statement, Statement), (post_visit_statement, Statement),
            (pre_visit_value, ValueWithSpan), (post_visit_value, ValueWithSpan)
        }
    };
    (methods $visitor:ident, $by_vtable:ident, $kept:ident, $mut:tt, $(($name:ident, $node:ty)),*) => {
        impl<V: $visitor> $visitor for $kept<'_, V> {
            type Break = ();
            $(direction! { method $mut, $name, $node, self, node, match self.visitor.$name(node) {
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
                ControlFlow::Break(value) => {
                    self.broke = Some(value);
                    ControlFlow::Break(())
                }
            } })*
        }

        impl $visitor for $by_vtable<'_> {
            type Break = ();
            $(direction! { method $mut, $name, $node, self, node, self.0.$name(node) })*
        }
    };
    (method ($($mut:ident)?), $name:ident, $node:ty, $self:ident, $part:ident, $body:expr) => {
        fn $name(&mut $self, $part: &$($mut)? $node) -> ControlFlow<()> {
            $body
        }
    };
}

direction!(walk, Visit, Visitor, ByVtable, Kept,);
direction!(walk_mut, VisitMut, VisitorMut, MutByVtable, MutKept, mut);

/// Calls `look` with each expression of a part, until it breaks.
pub(super) fn expressions<B>(part: &impl Visit, look: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    walk(part, &mut Expressions(look))
}

/// Calls `change` with each expression of a part, the inner ones first.
pub(super) fn expressions_mut(part: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    // The walk never breaks.
    _ = walk_mut(part, &mut ExpressionsMut(change));
}

/// Calls `look` with the name of each table that a part reads, until it breaks.
pub(super) fn relations<B>(
    part: &impl Visit,
    look: impl FnMut(&ObjectName) -> ControlFlow<B>,
) -> ControlFlow<B> {
    walk(part, &mut Relations(look))
}

struct Expressions<F>(F);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

struct ExpressionsMut<F>(F);

impl<F: FnMut(&mut Expr)> VisitorMut for ExpressionsMut<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}

struct Relations<F>(F);

impl<B, F: FnMut(&ObjectName) -> ControlFlow<B>> Visitor for Relations<F> {
    type Break = B;

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<B> {
        (self.0)(name)
    }
}
