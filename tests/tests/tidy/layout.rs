//! The versions of items, which belong to the layout that is written.

use super::sources;

/// A change that gives an item another form fails here: an older Almanac may have to refuse the table, and then
/// [`log::layout::LAYOUT`] is raised. Nothing here changes of a layout that was released.
#[test]
fn the_versions_of_items_belong_to_a_layout() {
    let is_raised = |line: &str| {
        let (name, number) = line.split_once("const ")?.1.split_once(": i64 = ")?;
        let number: i64 = number.trim_end_matches(';').parse().ok()?;
        (name.ends_with("VERSION") && number > 1).then(|| format!("{name} {number}"))
    };
    let found: Vec<String> = sources()
        .iter()
        .flat_map(|source| {
            source.lines.iter().filter_map(|line| Some(format!("{} {}", source.path, is_raised(line)?)))
        })
        .collect();
    insta::assert_snapshot!(format!("layout_{}", log::layout::LAYOUT), found.join("\n"));
}
