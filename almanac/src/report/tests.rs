use event::Day;
use plot::{Chart, Line, Mark, Point};

use super::{
    SECTIONS, Wanted,
    page::{Grid, Head, Section, page},
    rows::Cell,
};

/// Text that would be more than text on a page that does not escape it.
const HOSTILE: &str = "\"><script>alert('1')</script><img src=x onerror=alert(2)>&amp;\u{202e}txt.exe\u{0}";
const EMOJI: &str = "✈️ 👩‍🚀 שלום";

fn hostile() -> Section {
    let at = "2013-06-01".parse::<Day>().unwrap().start();
    let mut section = Section::new("drift", "What has changed");
    section.say(HOSTILE);
    section.lack(HOSTILE);
    section.brief.push(format!("{HOSTILE}{EMOJI}"));
    let line = Line { name: HOSTILE.into(), points: vec![Point::new(at, Some(1.0))] };
    section.chart(Chart {
        title: HOSTILE.into(),
        lines: vec![line.clone(), line],
        marks: vec![Mark { at, text: HOSTILE.into() }],
    });
    let mut grid = Grid::new(HOSTILE, &[HOSTILE, "n"]);
    grid.rows.push(vec![Cell::text(HOSTILE), Cell::text(EMOJI)]);
    section.table(grid);
    section
}

#[test]
fn text_is_text_whatever_it_says() {
    let head = Head { title: HOSTILE.into(), facts: vec![("Workspace", HOSTILE.into())] };
    let text = page(&head, &[hostile()]);
    for wrong in ["<script", "<img", "onerror=alert(2)>", "\u{0}", "&amp;\u{202e}"] {
        assert!(!text.contains(wrong), "{wrong}: {text}");
    }
    assert!(text.contains("&quot;&gt;&lt;script&gt;alert('1')&lt;/script&gt;") && text.contains(EMOJI));
    // What was text stays inside of its element: as many open as close.
    for tag in ["section", "h2", "p", "li", "table", "tr", "td", "th", "figure", "svg", "text", "title", "g"]
    {
        let opened = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}: {text}");
    }
}

#[test]
fn a_page_stands_by_itself_and_can_be_read_without_seeing_it() {
    let text = page(&Head { title: "a".into(), facts: Vec::new() }, &[hostile()]);
    for elsewhere in ["http://", "https://", "src=\"", "url(", "@import", "<link"] {
        let found = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(elsewhere), "{elsewhere}: {text}");
    }
    assert!(text.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    for part in ["<h1>", "<h2 id=\"drift\">", "<caption>", "scope=\"col\"", "scope=\"row\"", "role=\"img\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for media in ["prefers-color-scheme:dark", "@media print", "default-src 'none'"] {
        assert!(text.contains(media), "{media}");
    }
}

#[test]
fn a_long_table_shows_its_last_rows_and_says_so() {
    let mut section = Section::new("figures", "Figures");
    let mut grid = Grid::new("Figures by day", &["day", "n"]);
    grid.rows = (0..100).map(|row| vec![Cell::text(format!("day {row}")), Cell::count(row)]).collect();
    section.table(grid);
    let text = page(&Head::default(), &[section]);
    assert!(text.contains("Figures by day: the last 60 of 100 rows</caption>"), "{text}");
    assert!(!text.contains(">day 39<") && text.contains(">day 40<") && text.contains(">day 99<"));
}

#[test]
fn sections_are_chosen_by_their_names() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = Wanted::of(&[]).unwrap();
    assert!(SECTIONS.iter().all(|section| all.has(section)));
    let two = Wanted::of(&names(&["drift", "alerts"])).unwrap();
    assert_eq!(
        SECTIONS.into_iter().filter(|section| two.has(section)).collect::<Vec<_>>(),
        ["drift", "alerts"]
    );
    let wrong = Wanted::of(&names(&["drift", "all"])).map(|_| ()).unwrap_err().to_string();
    assert!(wrong.contains("sections: `all` is none of live, figures, compared"), "{wrong}");
}
