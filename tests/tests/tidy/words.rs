//! Words that nobody would say.

use super::{NONE, read_below, root};

/// Words that plain English does without.
const ODD_WORDS: [&str; 8] =
    ["whoever", "whomever", "anew", "aside", "bears", "thereof", "the others", "what is told"];

/// The odd words of a line.
fn odd_words(line: &str) -> impl Iterator<Item = &'static str> {
    let line = line.to_lowercase();
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    ODD_WORDS.into_iter().filter(move |word| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(is_letter) && !line[at + word.len()..].starts_with(is_letter)
        })
    })
}

#[test]
fn words_are_plain() {
    let mut found = Vec::new();
    for source in read_below(&root(), &["rs", "md", "tf", "py", "snap", "c"]) {
        // The list of changes keeps the words of what was released.
        if !source.path.ends_with("/tidy/words.rs") && source.path != "CHANGELOG.md" {
            for (number, line) in (1..).zip(&source.lines) {
                found.extend(odd_words(line).map(|word| format!("{}:{number}: {word}", source.path)));
            }
        }
    }
    assert_eq!(found, NONE, "name the thing, and say who does what to what");
    assert_eq!(
        odd_words("Whoever set it aside, the others").collect::<Vec<_>>(),
        ["whoever", "aside", "the others"]
    );
    assert_eq!(odd_words("fn set_aside() {} // forbears").count(), 0);
}
