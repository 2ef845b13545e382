//! The page: sections of text, charts and tables as self-contained HTML. It has no script and requests nothing from elsewhere.

use std::collections::BTreeSet;

use event::Timestamp;
use plot::{Chart, Line, escaped};
use query::{Dataset, Params};
use serde_json::Value;

use super::{Ask, sections::Subject};
use crate::output::cell;

/// Maximum rows of a table; of more, the last ones are shown.
const MAX_ROWS: usize = 60;

/// Part of the page under its own heading.
#[derive(Clone, Debug, Default)]
pub(super) struct Section<'a> {
    name: &'a str,
    title: &'a str,
    introduction: &'a str,
    lack: &'a str,
    pub(super) columns: &'a str,
    /// Paragraphs, charts and tables.
    html: String,
    pub(super) charts: Vec<Chart>,
    /// Summary lines at the top of the page.
    pub(super) brief: Vec<String>,
    /// Warnings of answers.
    pub(super) warnings: BTreeSet<String>,
}

impl<'a> Section<'a> {
    pub(super) fn new(Subject { name, title, introduction, lack, columns }: &'a Subject) -> Self {
        Self { name, title, introduction, lack, columns, ..Self::default() }
    }

    pub(super) fn say(&mut self, text: &str) {
        self.html += &format!("<p>{}</p>\n", escaped(text));
    }

    /// Adds a paragraph on missing data, with the reason.
    pub(super) fn lack(&mut self, text: &str) {
        self.html += &format!("<p class=\"lack\">{}</p>\n", escaped(text));
    }

    /// Puts the introduction first, or a sentence about missing data if the page is empty; and adds the warnings.
    pub(super) fn finish(&mut self, reference: &str) {
        let said = |text: &str| text.replace("REFERENCE", reference);
        match self.html.is_empty() {
            true => self.lack(&said(self.lack)),
            false if self.introduction.is_empty() => {}
            false => self.html.insert_str(0, &format!("<p>{}</p>\n", escaped(&said(self.introduction)))),
        }
        std::mem::take(&mut self.warnings)
            .iter()
            .for_each(|warning| self.lack(&format!("Warning: {warning}.")));
    }

    /// Requests rows, and keeps the warnings of the answer.
    pub(super) async fn rows(
        &mut self,
        ask: &Ask,
        what: Dataset,
        words: Params<'_>,
    ) -> anyhow::Result<Vec<Value>> {
        let (rows, warnings) = ask.rows(what, words).await?;
        self.warnings.extend(warnings);
        Ok(rows)
    }

    /// Adds a chart of lines, unless they have no numbers.
    pub(super) fn chart(&mut self, title: String, lines: Vec<Line>, marks: Vec<(Timestamp, String)>) {
        let chart = Chart { title, lines, marks, days: None };
        if !chart.is_empty() {
            self.html += &format!("<figure>\n{}</figure>\n", chart.svg());
            self.charts.push(chart);
        }
    }

    /// Adds a table of these columns of rows if there are any, without columns that have no value.
    pub(super) fn table(&mut self, caption: &str, columns: &str, rows: &[Value]) {
        if rows.is_empty() {
            return;
        }
        let shown = &rows[rows.len().saturating_sub(MAX_ROWS)..];
        let label = match shown.len() == rows.len() {
            true => escaped(caption),
            false => escaped(&format!("{caption}: the last {MAX_ROWS} of {} rows", rows.len())),
        };
        let has_value = |column: &&str| rows.iter().any(|row| !row[*column].is_null());
        let columns: Vec<&str> = columns.split(',').filter(has_value).collect();
        let class = |is_number: bool| if is_number { " class=\"n\"" } else { "" };
        let head = columns.iter().map(|column| {
            let class = class(rows.iter().any(|row| row[*column].is_number()));
            format!("<th scope=\"col\"{class}>{}</th>", escaped(column))
        });
        let line = |row: &Value| {
            let cells = columns.iter().enumerate().map(|(at, column)| {
                let (tag, scope) = if at == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
                let (class, text) = (class(row[*column].is_number()), escaped(&cell(&row[*column])));
                format!("<{tag}{scope}{class}>{text}</{tag}>")
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        // The focus lets the keyboard scroll the region.
        self.html += &format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<table>\n<caption>{label}</caption>\n\
             <thead>\n<tr>{}</tr>\n</thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
            head.collect::<String>(),
            shown.iter().map(line).collect::<String>()
        );
    }
}

/// Style of the page: on a screen light or dark as the reader's device, on paper light.
const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--text:#24292f;--faint:#57606a;--line:#d8dee4;--lack:#fff8e5}\
@media screen and (prefers-color-scheme:dark){:root{--ground:#0d1117;--text:#e6edf3;--faint:#9aa4ae;--line:#30363d;--lack:#2b2411}}\
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
@media print{body{max-width:none;padding:0;font-size:11px}h2{break-after:avoid}.wide{overflow:visible}}";

/// The whole page: its title, its subject as named facts, its sections.
pub(super) fn page(title: &str, facts: &[(&str, String)], sections: &[Section<'_>]) -> String {
    let title = escaped(title);
    // Second line of defence: if something slipped through, no browser would run or fetch it.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let fact = |(name, fact): &(&str, String)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(fact));
    let brief = sections.iter().flat_map(|section| &section.brief);
    let brief: String = brief.map(|text| format!("<li>{}</li>\n", escaped(text))).collect();
    let brief = (!brief.is_empty()).then(|| headed("brief", "In brief", &format!("<ul>\n{brief}</ul>\n")));
    let sections = sections.iter().map(|section| headed(section.name, section.title, &section.html));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<dl>\n{}</dl>\n\
         </header>\n<main>\n{}</main>\n<footer><p>Made by almanac report.</p></footer>\n</body>\n</html>\n",
        facts.iter().map(fact).collect::<String>(),
        brief.into_iter().chain(sections).collect::<String>()
    )
}

fn headed(id: &str, title: &str, content: &str) -> String {
    format!("<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{content}</section>\n")
}
