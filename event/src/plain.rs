//! Text that anybody may have written, as it may stand on a terminal: what steers it is escaped, as in `\u{1b}`.

use std::borrow::Cow;

/// A text on one line: what would break the line, steer a terminal or turn the order of its letters is escaped.
///
/// ```
/// use almanac_event::plain::on_one_line;
///
/// assert_eq!(on_one_line("late\n\u{1b}[31m"), r"late\n\u{1b}[31m");
/// ```
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

/// The same of text that may have several lines: their ends and tabs stay.
pub fn on_its_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t'))
}

/// Whether a letter is none that is seen: a control character, an end of a line, or a mark that turns the order of letters.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match is_unsafe(letter) {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_turns_letters_is_escaped() {
        for (text, shown) in [
            ("a\nb\tc\r", r"a\nb\tc\r"),
            ("\u{1b}[31mred\u{9b}2J\u{7f}", r"\u{1b}[31mred\u{9b}2J\u{7f}"),
            ("e\u{2028}f\u{2029}", r"e\u{2028}f\u{2029}"),
            ("\u{202a}a\u{202e}b\u{2066}c\u{2069}", r"\u{202a}a\u{202e}b\u{2066}c\u{2069}"),
            ("plain é 日本 שלום", "plain é 日本 שלום"),
        ] {
            assert_eq!(on_one_line(text), shown);
        }
        assert!(matches!(on_one_line("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn several_lines_keep_their_ends() {
        assert_eq!(on_its_lines("a\n\tb\u{1b}c\r\u{202e}"), "a\n\tb\\u{1b}c\\r\\u{202e}");
    }
}
