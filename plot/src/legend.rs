//! The names of lines in a legend: as much of each as there is room for, and no two equal.

use std::collections::BTreeSet;

use crate::Line;

/// Maximum letters of a cut name: no legend has room for more.
const MOST_LETTERS: usize = 200;

/// Returns the names of the lines in a legend. A name that does not fit is cut in its middle; if it would equal another one then,
/// a number follows.
pub(crate) fn names(lines: &[Line], fits: impl Fn(&str) -> bool) -> Vec<String> {
    let whole = lines.iter().map(|line| &line.name).filter(|name| fits(name));
    let mut taken: BTreeSet<String> = whole.cloned().collect();
    let mut names: Vec<String> = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        let before = lines[..index].iter().position(|before| before.name == line.name);
        let name = match before {
            Some(before) => names[before].clone(),
            None if fits(&line.name) => line.name.clone(),
            None => free(&line.name, &taken, &fits),
        };
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

/// Returns a name that is cut so that it is not taken.
fn free(name: &str, taken: &BTreeSet<String>, fits: impl Fn(&str) -> bool) -> String {
    let numbered = |number: usize| {
        let end = if number == 1 { String::new() } else { format!(" #{number}") };
        shortened(name, |text| fits(&format!("{text}{end}"))) + &end
    };
    (1..).map(numbered).find(|name| !taken.contains(name)).unwrap_or_default()
}

/// Returns a text that fits: a longer one has an ellipsis instead of its middle.
pub(crate) fn shortened(text: &str, fits: impl Fn(&str) -> bool) -> String {
    if fits(text) {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let cut = |kept: usize| -> String {
        let (head, tail) = (kept / 2, kept - kept / 2);
        letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
    };
    let most = letters.len().saturating_sub(1).min(MOST_LETTERS);
    (0..=most).rev().map(cut).find(|text| fits(text)).unwrap_or_else(|| "…".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of lines in rows of `letters` letters.
    fn called(lines: &[&str], letters: usize) -> Vec<String> {
        let line = |name: &&str| Line { name: (*name).to_owned(), points: Vec::new() };
        let lines: Vec<Line> = lines.iter().map(line).collect();
        names(&lines, |name| name.chars().count() <= letters)
    }

    #[test]
    fn a_name_that_is_cut_keeps_its_end() {
        assert_eq!(called(&["v1", "release-2013-06-01 auc"], 12), ["v1", "relea…01 auc"]);
        assert_eq!(called(&["v1"], 0), ["…"]);
    }

    #[test]
    fn no_two_names_become_the_same() {
        let lines = ["release-0000-a auc", "release-1111-a auc", "release-2222-a auc", "rele…a auc"];
        assert_eq!(called(&lines, 10), ["rel…auc #2", "rel…auc #3", "rel…auc #4", "rele…a auc"]);
    }

    #[test]
    fn equal_names_are_shortened_equally() {
        assert_eq!(called(&["release", "release"], 5), ["re…se", "re…se"]);
    }
}
