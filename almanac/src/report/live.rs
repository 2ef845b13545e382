//! Live releases.

use event::Timestamp;
use plot::Mark;

use super::{
    ask::Ask,
    page::{Grid, Section},
    rows::Cell,
};

/// Release that was live in the window, with its times.
struct Live<'a> {
    environment: &'a str,
    model: &'a str,
    release: &'a str,
    since: Timestamp,
    until: Option<Timestamp>,
}

/// Releases of the report that were live in the window.
fn lives(ask: &Ask) -> Vec<Live<'_>> {
    let begin = ask.window.from().start();
    let mut found = Vec::new();
    for (environment, spans) in &ask.live {
        for (release, model) in ask.releases() {
            let spans = spans.get(release).into_iter().flatten();
            let in_window = spans.filter(|(_, until)| until.is_none_or(|until| until > begin));
            let live = |(since, until): &(Timestamp, Option<Timestamp>)| Live {
                environment,
                model,
                release,
                since: *since,
                until: *until,
            };
            found.extend(in_window.map(live));
        }
    }
    found.sort_by_key(|live| (live.environment, live.model, live.since, live.release));
    found
}

/// Promotions in the environment of the report.
pub(super) fn marks(ask: &Ask) -> Vec<Mark> {
    let here = lives(ask).into_iter().filter(|live| live.environment == ask.environment);
    here.map(|live| Mark { at: live.since, text: format!("{} live", live.release) }).collect()
}

pub(super) fn section(ask: &Ask) -> Section {
    let mut section = Section::new("live", "What was live");
    let lives = lives(ask);
    if lives.is_empty() {
        section.lack(
            "No release was live in these days. The command almanac release promote says which one a model uses, and where.",
        );
        return section;
    }
    let columns = ["environment", "model", "release", "since", "until"];
    let mut grid = Grid::new("Releases that were live in these days", &columns);
    for live in &lives {
        let until = live.until.map_or_else(|| "the end".to_owned(), |until| until.to_string());
        let texts = [live.environment, live.model, live.release, &live.since.to_string(), &until];
        grid.rows.push(texts.map(Cell::text).to_vec());
        if live.until.is_none() {
            let Live { environment, model, release, since, .. } = live;
            section.brief.push(format!("{release} of {model} is live in {environment} since {since}."));
        }
    }
    section.table(grid);
    section
}
