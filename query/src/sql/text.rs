//! Statements of ours as text, and read again: what was put into other words is what polars reads.

use event::Result;
use sqlparser::{
    ast::Query,
    dialect::GenericDialect,
    parser::{Parser, ParserOptions},
};

use super::{
    admit::{MAX_NESTING_TOKENS, refused},
    logic,
};

/// How polars has the parser read.
pub(super) fn options() -> ParserOptions {
    ParserOptions { trailing_commas: true, ..ParserOptions::default() }
}

/// A statement in which an AND or OR belongs to what SQL says that it belongs to.
pub(super) fn regrouped(mut query: Query) -> Result<Query> {
    if !logic::part_from_what_follows(&mut query) {
        return Ok(query);
    }
    let says = "put parentheses round `a is distinct from b`, if anything follows on it";
    read(&query.to_string()).ok_or_else(|| refused(says))
}

/// A text of ours as the parser reads it, which may be longer than one that comes may be.
pub(super) fn read(text: &str) -> Option<Query> {
    let parser =
        Parser::new(&GenericDialect).with_options(options()).with_recursion_limit(MAX_NESTING_TOKENS);
    let read = parser.try_with_sql(text).and_then(|mut parser| parser.parse_query());
    read.ok().map(|query| *query)
}

/// The text of a statement that was rewritten.
///
/// # Errors
/// When it does not read as the statement: it would mean something else.
pub(super) fn text_of(query: &Query) -> Result<String> {
    let text = query.to_string();
    match read(&text) {
        Some(read) if read == *query => Ok(text),
        _ => Err(refused("this statement cannot be put into other words; write it more simply")),
    }
}
