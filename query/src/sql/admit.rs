//! Admission of statements: one query of at most so many bytes and words, parsed as polars does.

use std::{collections::BTreeSet, ops::ControlFlow};

use event::{Error, Result};
use sqlparser::{
    ast::{Expr, Query, Statement, Visit, Visitor, visit_expressions},
    dialect::GenericDialect,
    parser::{Parser, ParserOptions},
    tokenizer::{Token, Tokenizer},
};

use super::tables::Table;

/// Maximum bytes of a statement.
pub const MAX_STATEMENT_BYTES: usize = 16 * 1024;

/// Maximum number of words and signs of a statement that may nest, which bounds the recursion of the parser.
const MAX_NESTING_TOKENS: usize = 1_500;

pub(super) fn refused(why: impl Into<String>) -> Error {
    Error::invalid(format!("sql: {}", why.into()))
}

/// Returns the names of all tables, for errors about a missing or unknown table.
pub(crate) fn names_of_tables() -> String {
    Table::all().map(Table::name).collect::<Vec<_>>().join(", ")
}

/// Parses a statement. It must run on a large stack.
///
/// # Errors
/// `Invalid`, unless it is one query.
pub(super) fn parse(text: &str) -> Result<Query> {
    let mut statements = parser(text)?.parse_statements().map_err(|error| refused(error.to_string()))?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => Ok(*query),
        (Some(_), true) => Err(refused("only SELECT is admitted")),
        (None, _) => Err(refused("write a SELECT")),
        (Some(_), false) => Err(refused("only one statement is admitted")),
    }
}

/// Parses a condition on the rows of a table.
///
/// # Errors
/// `Invalid`, if it is none.
pub(super) fn condition(text: &str) -> Result<Expr> {
    let mut parser = parser(text)?;
    let condition = parser.parse_expr().map_err(|error| refused(error.to_string()))?;
    match parser.peek_token().token {
        Token::EOF => Ok(condition),
        token => Err(refused(format!("unexpected `{token}` in a condition"))),
    }
}

fn parser(text: &str) -> Result<Parser<'static>> {
    if text.len() > MAX_STATEMENT_BYTES {
        return Err(refused(format!("it has more than {MAX_STATEMENT_BYTES} bytes")));
    }
    let tokens = Tokenizer::new(&GenericDialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| refused(error.to_string()))?;
    let nests = |token: &Token| {
        !matches!(
            token,
            Token::Comma | Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_)
        )
    };
    if tokens.iter().filter(|token| nests(&token.token)).count() > MAX_NESTING_TOKENS {
        return Err(refused(format!("it has more than {MAX_NESTING_TOKENS} words and signs")));
    }
    let options = ParserOptions { trailing_commas: true, ..ParserOptions::default() };
    Ok(Parser::new(&GenericDialect).with_options(options).with_tokens_with_locations(tokens))
}

/// Calls `look` with each expression of a part, but not with those of queries within it, until it breaks.
pub(super) fn expressions<B>(part: &impl Visit, mut look: impl FnMut(&Expr) -> ControlFlow<B>) -> Option<B> {
    struct Expressions<'a> {
        look: &'a mut dyn FnMut(&Expr) -> ControlFlow<()>,
        queries: usize,
    }

    impl Visitor for Expressions<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if self.queries > 0 { ControlFlow::Continue(()) } else { (self.look)(expr) }
        }
    }

    let mut broke = None;
    let mut look = |expr: &Expr| look(expr).map_break(|value| broke = Some(value));
    _ = part.visit(&mut Expressions { look: &mut look, queries: 0 });
    broke
}

/// Returns the names of columns that a part may use, among them `tag.city` of `p.tag.city`.
pub(super) fn names_of_columns(part: &impl Visit) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    _ = visit_expressions(part, |expr| {
        match expr {
            Expr::Identifier(name) => _ = names.insert(name.value.clone()),
            Expr::CompoundIdentifier(parts) => {
                names.extend(parts.last().map(|name| name.value.clone()));
                if let [.., of, name] = &parts[..] {
                    names.insert(format!("{}.{}", of.value, name.value));
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    names
}
