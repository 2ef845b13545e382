//! The page: sections of text, charts and tables as self-contained HTML. It has no script and requests nothing from elsewhere.

use std::fmt::Write;

use plot::{Chart, escaped};

use super::rows::Cell;

/// Maximum rows of a table; of more, the last ones are shown.
const MAX_ROWS: usize = 60;

/// Part of the page under its own heading.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    /// Anchor of the section.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) parts: Vec<Part>,
    /// Summary lines at the top of the page.
    pub(super) brief: Vec<String>,
}

/// Part of a section.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A paragraph.
    Text(String),
    /// A paragraph on missing data, with the reason.
    Lack(String),
    Chart(Chart),
    Table(Grid),
}

/// Table.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// Head of the page.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) title: String,
    /// Subject of the page, as named facts.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl Section {
    pub(super) fn new(id: &'static str, title: &'static str) -> Self {
        Self { id, title, ..Self::default() }
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(text.into()));
    }

    pub(super) fn lack(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Lack(text.into()));
    }

    pub(super) fn chart(&mut self, chart: Chart) {
        self.parts.push(Part::Chart(chart));
    }

    pub(super) fn table(&mut self, grid: Grid) {
        self.parts.push(Part::Table(grid));
    }

    /// Charts of the section.
    pub(super) fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.parts.iter().filter_map(|part| match part {
            Part::Chart(chart) => Some(chart),
            Part::Text(_) | Part::Lack(_) | Part::Table(_) => None,
        })
    }
}

impl Grid {
    pub(super) fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { caption: caption.into(), columns, rows: Vec::new() }
    }
}

/// Style of the page: on a screen light or dark as the reader's device, on paper light.
const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--text:#24292f;--faint:#57606a;--line:#d8dee4;--shade:0,114,178;--lack:#fff8e5}\
@media screen and (prefers-color-scheme:dark){:root{--ground:#0d1117;--text:#e6edf3;--faint:#9aa4ae;--line:#30363d;\
--shade:86,180,233;--lack:#2b2411}}\
body{margin:0 auto;max-width:66rem;padding:1.5rem;background:var(--ground);color:var(--text);font:15px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem;margin:0 0 .5rem}h2{font-size:1.2rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line)}\
p{margin:.5rem 0;max-width:48rem}.lack{background:var(--lack);padding:.5rem .75rem;border-radius:4px}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0}dt{color:var(--faint)}dd{margin:0;\
overflow-wrap:anywhere}dd,td,th,li,caption{unicode-bidi:isolate}\
figure{margin:1rem 0;break-inside:avoid}figure svg{max-width:100%;height:auto}\
.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;font-size:.85rem;font-variant-numeric:tabular-nums}\
caption{text-align:left;color:var(--faint);padding-bottom:.25rem}th,td{padding:.15rem .6rem;border-bottom:1px solid var(--line);\
text-align:left;vertical-align:top}thead th{vertical-align:bottom}td{overflow-wrap:break-word;max-width:28rem}.n{text-align:right;white-space:nowrap}\
tbody th{font-weight:400;white-space:nowrap}tr{break-inside:avoid}\
footer{margin-top:3rem;color:var(--faint);font-size:.85rem}\
@media print{body{max-width:none;padding:0;font-size:11px}h2{break-after:avoid}.wide{overflow:visible}\
td{print-color-adjust:exact}}";

/// The whole page.
pub(super) fn page(head: &Head, sections: &[Section]) -> String {
    let mut out = String::new();
    let title = escaped(&head.title);
    // Second line of defence: if something slipped through, no browser would run or fetch it.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    put(
        &mut out,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<dl>"
        ),
    );
    for (name, fact) in &head.facts {
        put(&mut out, format_args!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(fact)));
    }
    out += "</dl>\n</header>\n<main>\n";
    in_brief(&mut out, sections);
    for section in sections {
        let (id, title) = (escaped(section.id), escaped(section.title));
        put(&mut out, format_args!("<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>"));
        section.parts.iter().for_each(|part| put_part(&mut out, part));
        out += "</section>\n";
    }
    out + "</main>\n<footer><p>Made by almanac report.</p></footer>\n</body>\n</html>\n"
}

fn in_brief(out: &mut String, sections: &[Section]) {
    let mut said = sections.iter().flat_map(|section| &section.brief).peekable();
    if said.peek().is_some() {
        *out += "<section aria-labelledby=\"brief\">\n<h2 id=\"brief\">In brief</h2>\n<ul>\n";
        said.for_each(|text| put(out, format_args!("<li>{}</li>", escaped(text))));
        *out += "</ul>\n</section>\n";
    }
}

fn put_part(out: &mut String, part: &Part) {
    match part {
        Part::Text(text) => put(out, format_args!("<p>{}</p>", escaped(text))),
        Part::Lack(text) => put(out, format_args!("<p class=\"lack\">{}</p>", escaped(text))),
        Part::Chart(chart) => put(out, format_args!("<figure>\n{}</figure>", chart.svg())),
        Part::Table(grid) => put_grid(out, grid),
    }
}

fn put_grid(out: &mut String, grid: &Grid) {
    let left_out = grid.rows.len().saturating_sub(MAX_ROWS);
    let rows = &grid.rows[left_out..];
    let caption = match left_out {
        0 => grid.caption.clone(),
        _ => format!("{}: the last {MAX_ROWS} of {} rows", grid.caption, grid.rows.len()),
    };
    // The focus lets the keyboard scroll the region.
    let label = escaped(&caption);
    put(out, format_args!("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">"));
    put(out, format_args!("<table>\n<caption>{label}</caption>\n<thead>\n<tr>"));
    for (at, column) in grid.columns.iter().enumerate() {
        let is_number = rows.first().is_some_and(|row| row.get(at).is_some_and(|cell| cell.is_number));
        put(out, format_args!("<th scope=\"col\"{}>{}</th>", class(is_number), escaped(column)));
    }
    *out += "</tr>\n</thead>\n<tbody>\n";
    for row in rows {
        *out += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let (class, text) = (class(cell.is_number), escaped(&cell.text));
            let shade = cell.shade.filter(|shade| *shade > 0.0).map_or_else(String::new, |shade| {
                format!(" style=\"background:rgba(var(--shade),{:.2})\"", shade.min(1.0) * 0.6)
            });
            let (tag, scope) = if at == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            // Writing to a text never fails.
            _ = write!(out, "<{tag}{scope}{class}{shade}>{text}</{tag}>");
        }
        *out += "</tr>\n";
    }
    *out += "</tbody>\n</table>\n</div>\n";
}

fn class(is_number: bool) -> &'static str {
    if is_number { " class=\"n\"" } else { "" }
}

/// Adds a line.
fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a text never fails.
    _ = writeln!(out, "{line}");
}
