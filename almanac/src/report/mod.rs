//! `almanac report`: one page on the performance of the models of a workspace.
//!
//! [`ask`] defines the subject of the page. Each section runs queries as `almanac query` does, so figures on the page equal those
//! of a query; [`page`] makes HTML of them.

mod alerts;
mod ask;
mod compared;
mod drifted;
mod expected;
mod figures;
mod gates;
mod live;
mod logged;
mod matured;
mod page;
mod rows;
mod segments;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;
use event::Error;
use log::cut::Cut;
use plot::Chart;
use sha2::{Digest as _, Sha256};

use self::{
    ask::Ask,
    page::{Head, Section},
};
use crate::{answer::Shown, config::Config, open, query::WindowArgs};

/// Maximum tries to make a report while events come.
const MAX_TRIES: usize = 3;

#[derive(Debug, Args)]
#[command(
    after_help = "  almanac report -w flights/nyc --from 2013-04-01 --to 2013-12-31 --reference 2013-04-01..2013-05-31 -o report.html"
)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    window: WindowArgs,
    /// Only releases of this model.
    #[arg(long)]
    model: Option<String>,
    /// The environment whose live release is compared with other releases.
    #[arg(long, value_name = "NAME", default_value = "production")]
    environment: String,
    /// The days that drift is measured from, and whose outcomes say what a score means, as FROM..TO; by default as many days before the
    /// window as it has, and 28 at least, or where these have no predictions the first half of the days of the window that have some.
    #[arg(long, value_name = "DAYS")]
    reference: Option<String>,
    /// Of how many days a point of a chart is: day, week, month or quarter; by default what gives the charts up to about sixty points.
    #[arg(long, value_name = "PERIOD")]
    group_by: Option<String>,
    /// Only these sections, with commas between: live, figures, compared, metrics, gates, expected, drift, segments, maturity, alerts.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    sections: Vec<String>,
    /// Print to standard error what the page was read from.
    #[arg(long)]
    show_cut: bool,
    /// Write to this file instead of the terminal: a page (.html), or its charts as one image (.svg).
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Form of the output.
#[derive(Clone, Copy)]
enum Form {
    Page,
    Image,
}

impl Form {
    fn of(args: &ReportArgs) -> Result<Self, Error> {
        let Some(path) = &args.output else { return Ok(Self::Page) };
        match path.extension().and_then(|end| end.to_str()) {
            Some("html" | "htm") => Ok(Self::Page),
            Some("svg") => Ok(Self::Image),
            _ => Err(Error::invalid(format!(
                "{}: the name of a report ends with .html, or with .svg for its charts alone",
                path.display()
            ))),
        }
    }
}

pub(crate) async fn command(config: &Config, args: &ReportArgs) -> anyhow::Result<()> {
    let form = Form::of(args)?;
    let wanted = Wanted::of(&args.sections)?;
    let query = open::to_ask(config).await?;
    let workspace = query.catalog().workspace(&args.window.workspace).await?;
    let ask = Ask::of(query, &workspace, args).await?;
    let (cut, sections) = settled(&ask, wanted).await?;
    if args.show_cut {
        eprintln!("cut: {cut}");
    }
    let text = match form {
        Form::Page => page::page(&head(&ask, &cut)?, &sections),
        Form::Image => {
            let charts: Vec<Chart> = sections.iter().flat_map(Section::charts).cloned().collect();
            plot::stacked(&charts)
        }
    };
    let shown = Shown { show_cut: false, format: None, output: args.output.clone() };
    shown.write_whole(&text)
}

/// Names of all sections, in order.
const SECTIONS: [&str; 10] = [
    "live", "figures", "compared", "metrics", "gates", "expected", "drift", "segments", "maturity", "alerts",
];

/// Requested sections, by place.
#[derive(Clone, Copy)]
struct Wanted([bool; SECTIONS.len()]);

impl Wanted {
    fn of(names: &[String]) -> Result<Self, Error> {
        if let Some(wrong) = names.iter().find(|name| !SECTIONS.contains(&name.as_str())) {
            let all = SECTIONS.join(", ");
            return Err(Error::invalid(format!("sections: `{wrong}` is none of {all}")));
        }
        Ok(Self(SECTIONS.map(|section| names.is_empty() || names.iter().any(|name| name == section))))
    }

    fn has(self, section: &str) -> bool {
        SECTIONS.iter().zip(self.0).any(|(name, is_wanted)| *name == section && is_wanted)
    }
}

/// Makes the sections, all of one state of the logs, and returns them with its cut.
async fn settled(ask: &Ask, wanted: Wanted) -> anyhow::Result<(Cut, Vec<Section>)> {
    let mut before = ask.cut().await?;
    for _ in 0..MAX_TRIES {
        let sections = sections(ask, wanted).await?;
        let after = ask.cut().await?;
        if (&before.heads, &before.left_out) == (&after.heads, &after.left_out) {
            return Ok((before, sections));
        }
        before = after;
    }
    Err(Error::unavailable(
        "events came each time while the report was made; ask for a window that has ended",
    )
    .into())
}

async fn sections(ask: &Ask, wanted: Wanted) -> anyhow::Result<Vec<Section>> {
    let mut sections = Vec::new();
    if wanted.has("live") {
        sections.push(live::section(ask));
    }
    if ["figures", "compared", "segments"].into_iter().any(|section| wanted.has(section)) {
        let (figures, told) = figures::section(ask).await?;
        sections.extend(wanted.has("figures").then_some(figures));
        if wanted.has("compared") {
            sections.push(compared::section(ask, &told).await?);
        }
        if wanted.has("segments") {
            sections.push(segments::section(ask, &told).await?);
        }
    }
    if wanted.has("metrics") {
        sections.push(logged::section(ask).await?);
    }
    if wanted.has("gates") {
        sections.push(gates::section(ask).await?);
    }
    if wanted.has("expected") {
        sections.push(expected::section(ask).await?);
    }
    if wanted.has("drift") {
        sections.push(drifted::section(ask).await?);
    }
    if wanted.has("maturity") {
        sections.push(matured::section(ask).await?);
    }
    if wanted.has("alerts") {
        sections.push(alerts::section(ask).await?);
    }
    sections.sort_by_key(|section| SECTIONS.iter().position(|name| *name == section.id));
    Ok(sections)
}

/// Head of the page. It contains no clock, so equal logs give equal bytes once projections cover them.
fn head(ask: &Ask, cut: &Cut) -> anyhow::Result<Head> {
    let segments: u64 = cut.heads.values().sum();
    let mut narrowed = Vec::new();
    narrowed.extend(ask.model.as_ref().map(|model| ("Model", model.clone())));
    narrowed.extend(ask.release.as_ref().map(|release| ("Release", release.clone())));
    let half =
        "; there are no predictions before these days, so it is the first half of those that have some";
    let half = if ask.is_first_half { half } else { "" };
    let mut facts = vec![
        ("Workspace", ask.path().to_owned()),
        ("Days", format!("{} to {} (UTC), by {}", ask.window.from(), ask.window.to(), ask.period)),
        ("Reference", format!("{} to {}{half}", ask.reference.from(), ask.reference.to())),
    ];
    facts.extend(narrowed);
    let of = format!("{segments} segments of {} logs, {}", cut.heads.len(), fingerprint(cut)?);
    facts.push(("Cut", of));
    Ok(Head { title: format!("{}: {} to {}", ask.path(), ask.window.from(), ask.window.to()), facts })
}

/// Identity of the state of the logs: the digest of the cut without its instant.
fn fingerprint(cut: &Cut) -> anyhow::Result<String> {
    let timeless = Cut { as_of: event::Timestamp::default(), ..cut.clone() };
    let digest = Sha256::digest(timeless.to_bytes()?);
    Ok(format!("sha256:{}", digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()))
}
