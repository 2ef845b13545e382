//! Promotion gates and approvals.

use catalog::{AgainstChampion, Evidence, Model, PromotionGates, Release, ToMeasure};
use query::number_text;

use super::{
    ask::Ask,
    page::{Grid, Section},
    rows::Cell,
};

/// Maximum releases of a model that are judged, the newest first.
const MAX_JUDGED: usize = 4;

/// Principal who requests the promotion: nobody.
const NOBODY: &str = "nobody";

pub(super) async fn section(ask: &Ask) -> anyhow::Result<Section> {
    let mut section = Section::new("gates", "What releases must pass");
    let is_told = |model: &&Model| ask.model.as_ref().is_none_or(|asked| *asked == model.entity.name);
    let models = ask.page.models.iter().filter(is_told);
    let gated: Vec<(&Model, &PromotionGates)> =
        models.filter_map(|model| Some((model, model.gates.as_ref()?))).collect();
    let told: Vec<&Release> =
        ask.page.releases.iter().filter(|release| ask.has(&release.entity.name)).collect();
    let approvals = approvals(&told);
    if gated.is_empty() {
        section.lack(
            "No model has promotion gates, so any release may be made live. The command almanac model gates sets them.",
        );
    } else {
        let columns = ["model", "environments", "days", "delay", "gates"];
        let mut grid = Grid::new("Promotion gates", &columns);
        grid.rows.extend(gated.iter().map(|(model, gates)| declared(model, gates)));
        section.table(grid);
        judged(ask, &mut section, &gated, &told).await?;
    }
    match approvals.rows.is_empty() {
        true => section.say("Nobody has approved a release."),
        false => section.table(approvals),
    }
    Ok(section)
}

/// Gates of a model in words.
fn declared(model: &Model, gates: &PromotionGates) -> Vec<Cell> {
    let mut says = Vec::new();
    says.extend(gates.min_n.map(|n| format!("{n} judged predictions")));
    says.extend(gates.champion.as_ref().map(|AgainstChampion { metric, margin }| {
        let (name, direction) = (metric.metric.name(), metric.direction.name());
        format!(
            "{name} (better is {direction}) at most {} worse than that of the live release",
            number_text(*margin)
        )
    }));
    says.extend(gates.completeness.map(|share| format!("{:.0}% of the truth", share * 100.0)));
    says.extend(gates.second_person.then(|| "a second person".to_owned()));
    let environments = gates.environments.iter().cloned().collect::<Vec<_>>().join(", ");
    let environments = if environments.is_empty() { "all".to_owned() } else { environments };
    vec![
        Cell::text(&model.entity.name),
        Cell::text(environments),
        Cell::count(gates.days.into()),
        Cell::count(gates.delay_days.into()),
        Cell::text(says.join("; ")),
    ]
}

/// Judges the newest releases that are not live, by the days before the window ends.
async fn judged(
    ask: &Ask,
    section: &mut Section,
    gated: &[(&Model, &PromotionGates)],
    told: &[&Release],
) -> anyhow::Result<()> {
    let columns = ["release", "model", "passes", "why not"];
    let mut grid = Grid::new(format!("Releases that could be live in {}", ask.environment), &columns);
    for (model, gates) in gated.iter().filter(|(_, gates)| gates.hold_in(&ask.environment)) {
        let champion = ask.champion(&model.entity.name);
        let others = told.iter().rev().copied().filter(|release| {
            release.model_id == model.entity.id && Some(release.entity.name.as_str()) != champion
        });
        for release in others.take(MAX_JUDGED) {
            let failed = failed(ask, gates, (release, champion)).await?;
            let passes = if failed.is_empty() { "yes" } else { "no" };
            let texts =
                [release.entity.name.as_str(), model.entity.name.as_str(), passes, &failed.join("; ")];
            grid.rows.push(texts.map(Cell::text).to_vec());
            section.brief.extend(
                (passes == "yes").then(|| {
                    format!("{} of {} passes the gates of {}.", texts[0], texts[1], ask.environment)
                }),
            );
        }
    }
    match grid.rows.is_empty() {
        true => section.say("No other release could be made live here."),
        false => section.table(grid),
    }
    Ok(())
}

/// Reasons why a release would not pass if it were made live at the end of the window.
async fn failed(
    ask: &Ask,
    gates: &PromotionGates,
    (release, champion): (&Release, Option<&str>),
) -> anyhow::Result<Vec<String>> {
    let window = gates.window(ask.until())?;
    let of = ToMeasure {
        window,
        release: release.entity.name.clone(),
        champion: champion.map(str::to_owned),
        figure: gates.champion.as_ref().map(|of| of.metric.metric.clone()),
        is_of_completeness: gates.completeness.is_some(),
    };
    let measured = match gates.need_figures() {
        true => ask.query.measure_promotion(ask.page.workspace.id(), &of).await?,
        false => catalog::Measured::default(),
    };
    let failed = gates.judge(&Evidence {
        environment: &ask.environment,
        window,
        measured,
        champion,
        asker: NOBODY,
        created_by: Some(&release.created_by),
        approvals: &release.approvals,
    });
    Ok(failed.into_iter().map(|failed| format!("{}: {}", failed.gate, failed.reason)).collect())
}

fn approvals(told: &[&Release]) -> Grid {
    let mut grid = Grid::new("Approvals", &["release", "environment", "by", "at", "note"]);
    for release in told {
        for approval in &release.approvals {
            let at = approval.at.to_string();
            let note = approval.note.as_deref().unwrap_or_default();
            let texts = [release.entity.name.as_str(), &approval.environment, &approval.principal, &at, note];
            grid.rows.push(texts.map(Cell::text).to_vec());
        }
    }
    grid
}
