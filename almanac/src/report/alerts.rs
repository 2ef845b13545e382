//! Crossings of alert rules.

use catalog::MAX_LISTED;

use super::{
    ask::Ask,
    page::{Grid, Section},
    rows::Cell,
};

/// Maximum crossings that are read; the page shows the last of them.
const READ: usize = if MAX_LISTED < 200 { MAX_LISTED } else { 200 };

pub(super) async fn section(ask: &Ask) -> anyhow::Result<Section> {
    let mut section = Section::new("alerts", "Alerts");
    let (catalog, id) = (ask.query.catalog(), ask.page.workspace.id());
    let rules = catalog.alert_rules(id).await?;
    let crossings = catalog.crossings(id, ask.window.from(), ask.window.to(), READ).await?;
    if rules.is_empty() && crossings.is_empty() {
        section.lack("No number of this workspace is watched. The command almanac alert apply sets rules.");
        return Ok(section);
    }
    if ask.model.is_some() || ask.release.is_some() {
        section.say("These are the rules of the whole workspace.");
    }
    match crossings.len() {
        0 => section.say("No rule began to fire or was resolved on these days."),
        count => {
            let times = if count == READ { format!("{READ} or more") } else { count.to_string() };
            section.brief.push(format!("Alert rules crossed {times} times."));
            let mut grid =
                Grid::new("When rules began to fire and were resolved", &["day", "rule", "what", "text"]);
            for crossed in crossings.iter().rev() {
                let texts = [
                    crossed.day.to_string(),
                    crossed.rule.clone(),
                    crossed.crossing.name().to_owned(),
                    crossed.text.clone(),
                ];
                grid.rows.push(texts.map(Cell::text).to_vec());
            }
            section.table(grid);
        }
    }
    let judged = catalog.judged_rules(id).await?;
    let mut grid = Grid::new("Where rules stand", &["rule", "state", "judged day"]);
    for rule in &rules {
        let of = judged.get(rule.name()).filter(|judged| judged.is_of(rule));
        let (state, day) = of.map_or(("not judged yet".to_owned(), String::new()), |judged| {
            (judged.standing.state.name().to_owned(), judged.day.to_string())
        });
        grid.rows.push([rule.name().to_owned(), state, day].map(Cell::text).to_vec());
    }
    if !grid.rows.is_empty() {
        section.table(grid);
    }
    Ok(section)
}
