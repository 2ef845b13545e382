//! Text from untrusted sources: made safe for a terminal (control characters are escaped, as in `\u{1b}`), the
//! nearest known name, and lists of names.

use std::borrow::Cow;

/// Escapes the characters of a text that would break the line, control a terminal or change the text direction.
///
/// ```
/// use almanac_event::plain::on_one_line;
///
/// assert_eq!(on_one_line("late\n\u{1b}[31m"), r"late\n\u{1b}[31m");
/// ```
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

/// Escapes like [`on_one_line`], but keeps line ends and tabs.
pub fn on_its_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t'))
}

/// Returns whether a character is invisible: a control character, a line end, or a mark that changes the text
/// direction.
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

/// Maximum length of names that are compared with others.
const MAX_COMPARED: usize = 64;

/// Returns the name in `others` nearest to `name`, if it may have been meant: at most a third of the letters are
/// different, missing or swapped.
///
/// ```
/// use almanac_event::plain::nearest;
///
/// assert_eq!(nearest("truht", ["score", "truth"]), Some("truth"));
/// assert_eq!(nearest("age", ["score", "truth"]), None);
/// ```
pub fn nearest<'a>(name: &str, others: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| -> Vec<char> {
        text.chars().flat_map(char::to_lowercase).take(MAX_COMPARED + 1).collect()
    };
    let name = letters(name);
    let near = |other: &&str| {
        let other = letters(other);
        let most = name.len().max(other.len());
        let distance = distance(&name, &other);
        (most <= MAX_COMPARED && 3 * distance <= most.max(3)).then_some(distance)
    };
    let others = others.into_iter().filter_map(|other| Some((near(&other)?, other)));
    others.min_by_key(|(distance, _)| *distance).map(|(_, other)| other)
}

/// Returns the number of letters to change, insert, delete or swap with the next to turn one text into the other.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut next = vec![at + 1];
        for (to, with) in other.iter().enumerate() {
            let mut least = (last[to] + usize::from(letter != with)).min(last[to + 1] + 1).min(next[to] + 1);
            if at > 0 && to > 0 && *letter == other[to - 1] && one[at - 1] == *with {
                least = least.min(before[to - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[other.len()]
}

/// Splits a list of names at commas. A name with a comma is in double quotes, in which two quotes stand for one.
///
/// # Errors
/// Fails with a sentence if a quote is not closed, or text follows it.
///
/// ```
/// use almanac_event::plain::listed;
///
/// assert_eq!(listed(r#"key, "score.a,b""#).unwrap(), ["key", "score.a,b"]);
/// ```
pub fn listed(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => in_quotes(quoted).ok_or_else(|| format!("a quote in {text} is not closed"))?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim_end().to_owned(), &rest[end..])
            }
        };
        names.push(name);
        let after = after.trim_start();
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(names),
            None => return Err(format!("there should be a comma behind the quotes in {text}")),
        }
    }
}

/// Returns the text up to the closing quote, and the rest after it.
fn in_quotes(mut rest: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_a_plausible_typing_error() {
        for (name, nearest_one) in [
            ("truht", Some("truth")),
            ("Truth", Some("truth")),
            ("amuont", Some("amount")),
            ("amounts", Some("amount")),
            ("brunch", Some("branch")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, ["amount", "branch", "truth"]), nearest_one, "{name}");
        }
        let long = "a".repeat(1_000_000);
        assert_eq!(nearest(&long, [long.as_str()]), None, "not compared");
    }

    #[test]
    fn listed_names_may_have_commas_in_quotes() {
        let read = |text: &str| listed(text).map_err(|_| ());
        assert_eq!(read("a, b,c d").unwrap(), ["a", "b", "c d"]);
        assert_eq!(read(r#""a,b","c""d" , e"f"#).unwrap(), ["a,b", "c\"d", "e\"f"]);
        assert_eq!(read("").unwrap(), [""]);
        assert_eq!(read("a,").unwrap(), ["a", ""]);
        assert!(read(r#""a"#).is_err() && read(r#""a"b"#).is_err());
    }

    #[test]
    fn control_and_direction_characters_are_escaped() {
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
