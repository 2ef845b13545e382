//! Comparison of releases.

use event::Day;
use plot::{Chart, Line, Mark, Point};
use polars::prelude::DataFrame;
use query::{What, Words, number_text};

use super::{
    ask::Ask,
    figures::Told,
    page::{Grid, Section},
    rows::{Cell, Rows},
};

/// Maximum models of the section, and maximum releases compared with the first one of a model.
const MAX_MODELS: usize = 8;
const MAX_OTHERS: usize = 4;

/// Columns of the table before and after the bounds.
const BEFORE: [&str; 6] = ["n", "wins", "losses", "ties", "advantage", "advantage_so_far"];
const AFTER: [&str; 8] =
    ["decided_at", "winner", "accuracy", "accuracy_against", "auc", "auc_against", "mae", "mae_against"];

pub(super) async fn section(ask: &Ask, told: &Told) -> anyhow::Result<Section> {
    let mut section = Section::new("compared", "Which release is better");
    let mut models: Vec<&str> = ask.page.models.iter().map(|model| model.entity.name.as_str()).collect();
    models.retain(|model| ask.model.as_ref().is_none_or(|asked| asked == model));
    let mut count = 0;
    for model in models {
        let pairs = pairs(ask, told, model);
        count += usize::from(!pairs.is_empty());
        if count > MAX_MODELS {
            section.say(format!("Further models are left out; --model {model} tells of that one."));
            break;
        }
        if !pairs.is_empty() && ask.champion(model).is_none() {
            let environment = &ask.environment;
            section.say(format!(
                "No release of {model} was live in {environment} when the window ended; the newest is compared with other ones."
            ));
        }
        for (release, against) in pairs {
            compare(ask, &mut section, (release, against)).await?;
        }
    }
    if count == 0 {
        let of = ask.release.as_ref().map_or_else(String::new, |release| format!(" beside {release}"));
        section.lack(format!(
            "No second release of a model predicted in these days{of}, so there is nothing to compare. A release that is not live may \
             predict the same keys in shadow."
        ));
    } else {
        section.say(
            "The bounds so far hold for all days at once, however often one looks: it is decided which release is better since the day from \
             which on they have left out zero, on one side and after every day up to the last.",
        );
    }
    Ok(section)
}

/// Pairs of releases of a model to compare: the live one, or else the newest, with the newest others.
fn pairs<'a>(ask: &'a Ask, told: &Told, model: &str) -> Vec<(&'a str, &'a str)> {
    let all = ask.page.releases.iter().filter(|release| release.model == model);
    let names: Vec<&str> = all.map(|release| release.entity.name.as_str()).collect();
    // In a report of one release, any other may be its counterpart.
    let is_told = |name: &str| ask.release.is_some() || told.predicted.contains(name);
    let predicted: Vec<&str> = names.iter().rev().copied().filter(|name| is_told(name)).collect();
    let champion = ask.champion(model).filter(|name| predicted.contains(name));
    let Some(first) = champion.or(predicted.first().copied()) else { return Vec::new() };
    let others = predicted.iter().copied().filter(|name| *name != first);
    let pairs = others.map(|other| (first, other));
    let asked = |(one, other): &(&str, &str)| {
        ask.release.as_deref().is_none_or(|release| release == *one || release == *other)
    };
    pairs.filter(asked).take(MAX_OTHERS).collect()
}

async fn compare(ask: &Ask, section: &mut Section, (release, against): (&str, &str)) -> anyhow::Result<()> {
    let words =
        Words { release: Some(release), against: Some(against), group_by: Some(ask.period), ..ask.words() };
    let answer = ask.answer(What::HeadToHead, words).await?;
    let rows = Rows(&answer.frame);
    let Some(last) = rows.numbers().next_back() else {
        section.lack(format!(
            "Nothing judges {release} and {against} on the same prediction: they share no key with an outcome."
        ));
        return Ok(());
    };
    let decided = rows.text("decided_at", last);
    let text = verdict(&rows, last, (release, against));
    section.brief.push(text.clone());
    section.say(text);
    section.chart(chart(&rows, (release, against), decided));
    section.table(grid(ask, &answer.frame, (release, against)));
    Ok(())
}

/// States the better release of both, and the certainty.
fn verdict(rows: &Rows<'_>, last: usize, (release, against): (&str, &str)) -> String {
    let measure = rows.text("measure", last).unwrap_or_default();
    let number = |column| rows.number(column, last).unwrap_or_default();
    let (advantage, low, high) = (number("advantage_so_far"), number("low_so_far"), number("high_so_far"));
    let n = rows.count("n_so_far", last);
    let [so_far, low_text, high_text] = [advantage, low, high].map(number_text);
    let told = format!(
        "By {measure} the advantage of {release} is {so_far} so far, of {n} predictions that both made"
    );
    let (Some(decided), Some(winner)) = (rows.text("decided_at", last), rows.text("winner", last)) else {
        return format!(
            "It is not decided whether {release} or {against} is better. {told}; its bounds are {low_text} to {high_text}."
        );
    };
    let loser = if winner == release { against } else { release };
    let mut text = format!("{winner} is better than {loser}: decided on {decided}. {told}.");
    if !(low..=high).contains(&advantage) {
        text += &format!(
            " That is outside of its bounds, {low_text} to {high_text}, which take for granted that predictions stay as they were; these did \
             not."
        );
    } else {
        text += &format!(" Its bounds are {low_text} to {high_text}.");
    }
    text
}

fn chart(rows: &Rows<'_>, (release, against): (&str, &str), decided: Option<&str>) -> Chart {
    let point = |row| {
        let value = rows.number("advantage_so_far", row);
        let (low, high) = (rows.number("low_so_far", row), rows.number("high_so_far", row));
        Point::new(rows.day(row).start(), value).within(low, high)
    };
    let at = decided.and_then(|day| day.parse::<Day>().ok());
    let mark = at.map(|day| Mark { at: day.start(), text: format!("decided on {day}") });
    let measure = rows.text("measure", 0).unwrap_or_default();
    Chart {
        title: format!("Advantage of {release} over {against} so far, by {measure}"),
        lines: vec![Line { name: release.to_owned(), points: rows.numbers().map(point).collect() }],
        marks: mark.into_iter().collect(),
        ..Chart::default()
    }
}

fn grid(ask: &Ask, frame: &DataFrame, (release, against): (&str, &str)) -> Grid {
    let rows = Rows(frame);
    let after: Vec<&str> =
        AFTER.into_iter().filter(|column| *column == AFTER[0] || rows.has(column)).collect();
    let columns: Vec<&str> = [ask.period]
        .into_iter()
        .chain(BEFORE)
        .chain(["bounds so far"])
        .chain(after.iter().copied())
        .collect();
    let mut grid = Grid::new(format!("{release} against {against} by {}", ask.period), &columns);
    for row in rows.numbers() {
        let cell = |column| rows.cell(column, row);
        let bounds = Cell::interval(rows.interval(("low_so_far", "high_so_far"), row));
        let before = ["day"].into_iter().chain(BEFORE).map(cell);
        grid.rows.push(before.chain([bounds]).chain(after.iter().map(|column| cell(column))).collect());
    }
    grid
}
