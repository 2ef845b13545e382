//! Words and signs of an expression.

/// A word or sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A keyword, a function or a column; members of families are one word: `tag.carrier`.
    Word(String),
    /// A column in double quotes.
    Quoted(String),
    /// A number.
    Number(f64),
    /// A text in single quotes.
    Text(String),
    /// A sign.
    Sign(&'static str),
}

/// Signs, longer ones first.
const SIGNS: [&str; 15] = ["<>", "!=", "<=", ">=", "(", ")", ",", "+", "-", "*", "/", "%", "=", "<", ">"];

/// Splits an expression into words and signs.
///
/// # Errors
/// The reason as a message.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '\'' => quoted(rest, first).map(|(text, after)| (Token::Text(text), after))?,
            '"' => quoted(rest, first).map(|(name, after)| (Token::Quoted(name), after))?,
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
                let end = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
                (Token::Word(rest[..end].to_owned()), &rest[end..])
            }
            _ if first.is_ascii_digit() || first == '.' => number(rest)?,
            _ => match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
                Some(sign) => (Token::Sign(sign), &rest[sign.len()..]),
                None => return Err(format!("`{first}` has no place in it")),
            },
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// Reads the text in quotes, in which two quotes stand for one.
fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut inner = String::new();
    let mut rest = &text[1..];
    loop {
        let Some(end) = rest.find(quote) else { return Err(format!("a {quote} has no end")) };
        inner.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(quote) {
            Some(more) => {
                inner.push(quote);
                rest = more;
            }
            None => return Ok((inner, rest)),
        }
    }
}

fn number(text: &str) -> Result<(Token, &str), String> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end += 1;
        end += digits(end);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if let more @ 1.. = digits((end + 1 + sign).min(bytes.len())) {
            end += 1 + sign + more;
        }
    }
    let number = text[..end].parse().ok().filter(|number: &f64| number.is_finite());
    let number = number.ok_or_else(|| format!("`{}` is no number", &text[..end]))?;
    Ok((Token::Number(number), &text[end..]))
}
