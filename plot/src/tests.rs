use event::Day;
use proptest::prelude::*;

use super::*;

fn line(name: &str, from: &str, values: &[Option<f64>]) -> Line {
    let first: Day = from.parse().unwrap();
    let days = std::iter::successors(Some(first), |day| day.next());
    let points = days.zip(values).map(|(day, value)| Point::new(day.start(), *value)).collect();
    Line { name: name.to_owned(), points }
}

fn two() -> Chart {
    let wave =
        |phase: f64| (0..30).map(|day| Some(0.8 + 0.1 * (f64::from(day) / 4.0 + phase).sin())).collect();
    let (mut first, second): (Vec<_>, Vec<_>) = (wave(0.0), wave(1.5));
    first[12] = None;
    let mut lines = vec![line("v1", "2013-06-01", &first), line("v2", "2013-06-01", &second)];
    for point in &mut lines[1].points {
        *point = point.within(point.value.map(|value| value - 0.02), point.value.map(|value| value + 0.03));
    }
    Chart { title: "auc, flights/nyc".into(), lines, ..Chart::default() }
}

#[test]
fn a_line_is_drawn_in_dots() {
    let mut chart = two();
    chart.lines.truncate(1);
    insta::assert_snapshot!(chart.terminal(72, 14, false));
}

#[test]
fn lines_without_colour_have_distinct_marks() {
    insta::assert_snapshot!(two().terminal(72, 16, false));
}

#[test]
fn several_lines_have_colours() {
    let text = two().terminal(60, 10, true);
    assert!(text.contains("\u{1b}[34m") && text.contains("\u{1b}[33m"), "{text}");
    assert_eq!(text.matches("\u{1b}[0m").count(), text.matches("\u{1b}[3").count());
}

#[test]
fn chart_names_cannot_control_the_terminal() {
    let mut chart = two();
    chart.title = "auc\n\u{1b}[2J".into();
    chart.lines[0].name = "no\u{202e}rth\u{1b}]0;x\u{7}".into();
    let text = chart.terminal(72, 10, false);
    assert!(text.starts_with("auc\\n\\u{1b}[2J\n"), "{text}");
    assert!(text.contains(r"o no\u{202e}rth\u{1b}]0;x\u{7}"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
}

#[test]
fn an_image_is_made() {
    insta::assert_snapshot!(two().svg());
}

#[test]
fn what_happened_within_its_time_is_marked() {
    let at = |day: &str| day.parse::<Day>().unwrap().start();
    let marks = [("2013-06-10", "v2 live"), ("2013-06-28", "late"), ("2014-01-01", "after it")];
    let marks = marks.map(|(day, text)| Mark { at: at(day), text: text.into() }).to_vec();
    let svg = Chart { marks, ..two() }.svg();
    assert_eq!(svg.matches("class=\"mark\"").count(), 2, "{svg}");
    assert!(svg.contains(">v2 live</text>") && !svg.contains("after it"), "{svg}");
    // The text is on the side of the line with room for it.
    assert!(svg.contains("<text class=\"end\" x=\"796.93\" y=\"90\">late</text>"), "{svg}");
}

#[test]
fn the_days_at_both_ends_are_written_whole() {
    let days = |count: usize| {
        let lines = vec![line("v1", "2013-06-01", &vec![Some(0.5); count])];
        Chart { title: "auc".into(), lines, ..Chart::default() }.svg()
    };
    let eight = days(8);
    // The first is centred under its tick, the last, whose tick is at 856, ends at the edge of the image.
    assert!(eight.contains("<text class=\"mid\" x=\"72.00\" y=\"400\">2013-06-01</text>"), "{eight}");
    assert!(eight.contains("<text class=\"mid\" x=\"744.00\" y=\"400\">2013-06-07</text>"), "{eight}");
    assert!(eight.contains("<text class=\"end\" x=\"876.00\" y=\"400\">2013-06-08</text>"), "{eight}");
    // A day alone has room on both sides.
    let one = days(1);
    assert!(one.contains("<text class=\"mid\" x=\"464.00\" y=\"400\">2013-06-01</text>"), "{one}");
}

#[test]
fn charts_stand_one_below_the_other() {
    let svg = stacked(&[two(), Chart { title: "second".into(), ..two() }]);
    assert!(svg.contains("viewBox=\"0 0 880 840\"") && svg.contains("translate(0 420)"), "{svg}");
    assert_eq!((svg.matches("<style>").count(), svg.matches("<svg").count()), (1, 1));
    assert!(svg.contains("<title>auc, flights/nyc; second</title>"));
}

#[test]
fn names_are_text_in_an_image() {
    let chart = Chart {
        title: "</title><script>alert(1)</script>".into(),
        lines: vec![line("a\"&\u{7}", "2013-06-01", &[Some(1.0)]), line("b", "2013-06-01", &[])],
        marks: vec![Mark { at: "2013-06-01".parse::<Day>().unwrap().start(), text: "</text><b>".into() }],
        ..Chart::default()
    };
    let svg = chart.svg();
    assert!(
        !svg.contains("<script") && !svg.contains("<b>") && svg.contains("a&quot;&amp;\u{fffd}"),
        "{svg}"
    );
}

#[test]
fn a_chart_without_numbers_says_so() {
    let lines = vec![line("v1", "2013-06-01", &[None, Some(f64::NAN)])];
    let chart = Chart { title: "auc".into(), lines, ..Chart::default() };
    assert!(chart.is_empty() && chart.svg().contains("no numbers"));
    assert!(chart.terminal(40, 8, false).contains("2013-06-01"));
    assert!(Chart::default().svg().contains("no numbers"));
    Chart::default().terminal(0, 0, true);
}

#[test]
fn chart_without_points_shows_the_requested_days() {
    let days = Window::new("2013-06-01".parse().unwrap(), "2013-06-08".parse().unwrap()).unwrap();
    let svg = Chart { days: Some(days), ..Chart::default() }.svg();
    assert!(svg.contains(">2013-06-07</text>") && svg.contains(">no numbers in this window</text>"), "{svg}");
    // An axis without numbers shows none, and one without days shows no days.
    assert!(!svg.contains(">1.0</text>") && !Chart::default().svg().contains("1970-01-01"), "{svg}");
}

#[test]
fn long_numbers_have_room_at_the_left() {
    let chart = |values: &[f64]| {
        let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
        Chart { title: "n".into(), lines: vec![line("v1", "2013-06-01", &values)], ..Chart::default() }.svg()
    };
    assert!(chart(&[0.5, 0.75]).contains("d=\"M72 "));
    let long = chart(&[-1_234_567.25, -1_234_567.0]);
    assert!(!long.contains("d=\"M72 ") && long.contains(">-1234567.25</text>"), "{long}");
}

#[test]
fn bands_are_beneath_all_lines() {
    let svg = two().svg();
    let at = |what: &str| svg.find(what).unwrap();
    assert!(at("class=\"band\"") < at("class=\"line c0\""), "{svg}");
}

#[test]
fn a_point_alone_has_its_interval() {
    let mut chart = called(&["v1"]);
    let point = &mut chart.lines[0].points[0];
    *point = point.within(Some(0.25), Some(0.75));
    let svg = chart.svg();
    assert!(svg.contains("class=\"alone\"") && !svg.contains("class=\"band\""), "{svg}");
}

/// Builds a chart of lines with these names and a point each.
fn called(names: &[&str]) -> Chart {
    let lines = names.iter().map(|name| line(name, "2013-06-01", &[Some(0.5)])).collect();
    Chart { title: "auc".into(), lines, ..Chart::default() }
}

#[test]
fn legend_grows_to_fit_its_names() {
    let names = ["v1 (others) precision", "v1 (others) recall", "v1 (late) precision", "v1 (late) recall"];
    let ends = [" a", " b", " c"].map(|end| format!("{}{end}", "release-".repeat(8)));
    let names = [&names[..], &ends.each_ref().map(String::as_str)].concat();
    let svg = called(&names).svg();
    assert!(names.iter().all(|name| svg.contains(&format!(">{name}</text>"))), "{svg}");
    // Three more rows make the image higher, and the drawing begins lower.
    assert!(svg.contains("viewBox=\"0 0 880 480\"") && svg.contains("y=\"460\">2013-06-01</text>"), "{svg}");
    let text = called(&names).terminal(60, 12, false);
    assert!(names[..4].iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn long_names_and_titles_fit_keeping_their_ends() {
    let long = |end: &str| format!("{} {end}", "release-".repeat(40));
    let (auc, brier) = (long("auc"), long("brier"));
    let mut chart = called(&[auc.as_str(), brier.as_str()]);
    chart.title = format!("auc, brier of {}", long("flights/nyc"));
    let svg = chart.svg();
    for end in [" auc</text>", " brier</text>", " flights/nyc</text>"] {
        assert!(svg.contains(end), "{end}: {svg}");
    }
    assert!(
        svg.matches('…').count() == 3 && svg.contains(&format!("<title>{}</title>", chart.title)),
        "{svg}"
    );
    let text = chart.terminal(60, 12, false);
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 60), "{text}");
    assert!(text.contains(" auc\n") && text.contains(" brier\n"), "{text}");
}

proptest! {
    #[test]
    fn any_chart_is_drawn(
        lines in prop::collection::vec(prop::collection::vec(prop::option::of(any::<f64>()), 0..20), 0..10),
        width in 0usize..200,
        height in 0usize..60,
        marks in prop::collection::vec(1_700_000_000_000_000i64..1_720_000_000_000_000, 0..12),
        colour: bool,
    ) {
        let lines = lines.iter().map(|values| line("release", "2024-02-20", values)).collect();
        let marks = marks.iter().map(|at| Mark { at: Timestamp::from_micros(*at).unwrap(), text: "m".into() });
        let chart = Chart { title: "any".into(), lines, marks: marks.collect(), ..Chart::default() };
        let text = chart.terminal(width, height, colour);
        prop_assert!(colour || text.lines().all(|line| line.chars().count() <= width.max(48)), "{}", text);
        let svg = chart.svg();
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
        let count = |what: &str| svg.matches(what).count();
        prop_assert_eq!(count("<g "), count("</g>"));
    }
}
