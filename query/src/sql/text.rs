//! Our own statements as text, parsed again: polars reads the rewritten text.

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

/// Returns the options of the parser that polars uses.
pub(super) fn options() -> ParserOptions {
    ParserOptions { trailing_commas: true, ..ParserOptions::default() }
}

/// Moves an AND or OR to the operand that it belongs to in SQL.
pub(super) fn regrouped(mut query: Query) -> Result<Query> {
    if !logic::part_from_what_follows(&mut query) {
        return Ok(query);
    }
    let says = "put parentheses round `a is distinct from b`, if anything follows on it";
    read(&query.to_string()).ok_or_else(|| refused(says))
}

/// Parses a text of ours, which may be longer than a statement of a client.
pub(super) fn read(text: &str) -> Option<Query> {
    let parser =
        Parser::new(&GenericDialect).with_options(options()).with_recursion_limit(MAX_NESTING_TOKENS);
    let read = parser.try_with_sql(text).and_then(|mut parser| parser.parse_query());
    read.ok().map(|query| *query)
}

/// Returns the text of a rewritten statement.
///
/// # Errors
/// `Invalid`, if parsing it does not give the statement: it would mean something else.
pub(super) fn text_of(query: &Query) -> Result<String> {
    let text = query.to_string();
    match read(&text) {
        Some(read) if read == *query => Ok(text),
        _ => Err(refused("this statement cannot be put into other words; write it more simply")),
    }
}
