//! The parts of filters and orders: names, values and signs.

use std::fmt;

use crate::answer::{Answer, Failure};

/// A part of a filter or an order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name or a keyword, with its quoted parts: `metrics."a b"`.
    Word(Vec<String>),
    /// A value in single quotes.
    Text(String),
    /// A number.
    Number(f64),
    /// A comparison, a parenthesis or a comma.
    Sign(String),
}

/// Builds the failure of a wrong filter or order.
pub(crate) fn wrong(text: &str) -> Failure {
    Failure::invalid(format!("Invalid filter or order: {text}"))
}

/// Returns a quoted text, and the rest behind it. A quote is doubled within the text.
fn quoted(text: &str, quote: char) -> Answer<(String, &str)> {
    let mut found = String::new();
    let mut rest = &text[quote.len_utf8()..];
    loop {
        let end = rest.find(quote).ok_or_else(|| wrong(&format!("a {quote} is not closed")))?;
        found += &rest[..end];
        rest = &rest[end + quote.len_utf8()..];
        match rest.strip_prefix(quote) {
            Some(after) => {
                found.push(quote);
                rest = after;
            }
            None => return Ok((found, rest)),
        }
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || "_-/:$".contains(letter)
}

/// Returns a name in parts, and the rest behind it: `metrics.loss`, `tags."a b"`, `"name"`.
fn word(text: &str) -> Answer<(Vec<String>, &str)> {
    let (mut parts, mut rest) = (Vec::new(), text);
    loop {
        let part;
        match rest.chars().next() {
            Some(quote @ ('"' | '`')) => (part, rest) = quoted(rest, quote)?,
            _ => {
                let end = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
                part = rest[..end].to_owned();
                rest = &rest[end..];
            }
        }
        parts.push(part);
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None => return Ok((parts, rest)),
        }
    }
}

/// Splits a text into tokens.
pub(crate) fn tokens(text: &str) -> Answer<Vec<Token>> {
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while let Some(letter) = rest.chars().next() {
        let token;
        match letter {
            '\'' => {
                let (text, after) = quoted(rest, '\'')?;
                (token, rest) = (Token::Text(text), after);
            }
            '<' | '>' | '=' | '!' | '(' | ')' | ',' => {
                let length = if rest[1..].starts_with('=') && letter != '(' { 2 } else { 1 };
                (token, rest) = (Token::Sign(rest[..length].to_owned()), &rest[length..]);
            }
            '0'..='9' | '-' | '+' | '.' => {
                let is_of_number = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
                let end = rest.find(|letter| !is_of_number(letter)).unwrap_or(rest.len());
                let number = rest[..end].parse().map_err(|_| wrong(&rest[..end]))?;
                (token, rest) = (Token::Number(number), &rest[end..]);
            }
            letter if is_of_word(letter) || letter == '"' || letter == '`' => {
                let (parts, after) = word(rest)?;
                (token, rest) = (Token::Word(parts), after);
            }
            _ => return Err(wrong(rest)),
        }
        found.push(token);
        rest = rest.trim_start();
    }
    Ok(found)
}

impl fmt::Display for Token {
    /// Writes it as in the filter, in quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(parts) => write!(f, "`{}`", parts.join(".")),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

impl Token {
    /// Returns true if it is this keyword, in any case.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        matches!(self, Token::Word(parts) if parts.len() == 1 && parts[0].eq_ignore_ascii_case(keyword))
    }

    /// Returns true if it is this sign.
    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        matches!(self, Token::Sign(text) if text == sign)
    }
}
