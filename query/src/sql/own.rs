//! Search for an expression in a query itself: nested queries have columns and windows of their own.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, Visitor};

/// Breaks at the first expression for which `look` returns a text, with that text.
pub(super) struct Own<F> {
    look: F,
    /// Depth of nested queries.
    queries: usize,
}

impl<F: Fn(&Expr) -> Option<String>> Own<F> {
    pub(super) fn new(look: F) -> Self {
        Self { look, queries: 0 }
    }
}

impl<F: Fn(&Expr) -> Option<String>> Visitor for Own<F> {
    type Break = String;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match (self.look)(expr) {
            Some(found) if self.queries == 0 => ControlFlow::Break(found),
            _ => ControlFlow::Continue(()),
        }
    }
}
