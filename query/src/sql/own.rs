//! Looks for an expression that is of a query itself: those of queries within it have columns and windows of their own.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, Visitor};

/// Breaks at the first expression of which `look` says something, with that.
pub(super) struct Own<F> {
    look: F,
    /// In how many queries within it looks.
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
