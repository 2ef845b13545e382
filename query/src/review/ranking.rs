//! Ranking of the releases of an arena: by the stored counts of its votes, or, as of a time, by the votes in the log.

use std::collections::BTreeMap;

use catalog::{ARENA_METRIC, Vote};
use event::{Id, Kind, Result, Timestamp, fields::TAG_PREFIX};
use fold::ranking::{Ranked, Ranking, Strength, Tally, rank};
use polars::prelude::DataFrame;
use serde_json::{Value, json};

use crate::{
    Query,
    frame::failed,
    request::{Dataset, Params, Request},
};

/// The releases of an arena, ranked by its votes.
#[derive(Clone, Debug, PartialEq)]
pub struct ArenaRanking {
    /// The name of the arena.
    pub review: String,
    /// The ranking of the releases.
    pub ranking: Ranking,
    /// The votes on each pair.
    pub tallies: Vec<Tally>,
    /// The instant that it is as of, if a time was requested: that time or the last closed instant, whichever is earlier.
    pub as_of: Option<Timestamp>,
    /// Warnings of missing data, one sentence each.
    pub warnings: Vec<String>,
    /// Number of items of each pair, and true if both releases are live; empty for a ranking as of a time.
    pairs: Vec<(u32, bool)>,
}

impl ArenaRanking {
    /// Returns it as JSON.
    pub fn to_json(&self) -> Value {
        let release = |ranked: &Ranked| {
            let of = |get: fn(Strength) -> f64| ranked.strength.map(get);
            json!({
                "release": ranked.release, "wins": ranked.wins, "losses": ranked.losses, "ties": ranked.ties,
                "strength": of(|strength| strength.value), "lower": of(|strength| strength.lower),
                "upper": of(|strength| strength.upper),
            })
        };
        let pair = |(at, tally): (usize, &Tally)| {
            let [release, against] = &tally.releases;
            let mut told = json!({
                "release": release, "against": against, "wins": tally.wins[0], "losses": tally.wins[1],
                "ties": tally.ties,
            });
            if let Some((items, is_live)) = self.pairs.get(at) {
                told["items"] = json!(items);
                told["live"] = json!(is_live);
            }
            told
        };
        json!({
            "review": self.review,
            "as_of": self.as_of,
            "votes": self.tallies.iter().map(Tally::votes).sum::<u64>(),
            "connected": self.ranking.is_connected,
            "releases": self.ranking.releases.iter().map(release).collect::<Vec<_>>(),
            "pairs": self.tallies.iter().enumerate().map(pair).collect::<Vec<_>>(),
        })
    }
}

impl Query {
    /// Ranks the releases of an arena by its votes; as of a time by those appended by then.
    ///
    /// # Errors
    /// `NotFound`, if there is no such arena; `Invalid`, if the review is no arena, or the time is wrong; errors of
    /// [`Query::run`] and of the table.
    pub async fn rank_arena(&self, workspace: &Id, name: &str, as_of: Option<&str>) -> Result<ArenaRanking> {
        let review = self.catalog().review(workspace, name).await?;
        review.check_arena()?;
        let (tallies, pairs, as_of, warnings) = if as_of.is_some() {
            let (from, to) = (review.created_at.day().to_string(), self.now().day().to_string());
            let filter = format!("name = '{ARENA_METRIC}{name}'");
            let words = Params { from: &from, to: &to, filter: Some(&filter), as_of, ..Params::default() };
            let answer =
                self.run(workspace, &Request::parse(Dataset::Events(Kind::Metrics), &words)?).await?;
            (tallies(&answer.frame, &review.id)?, Vec::new(), answer.as_of, answer.warnings)
        } else {
            let pairs = self.catalog().compared_pairs(workspace, &review).await?;
            let items = pairs.iter().map(|(pair, is_live)| (pair.items, *is_live)).collect();
            let tally = |(pair, _): (catalog::ArenaPair, bool)| Tally {
                releases: pair.releases,
                wins: pair.wins,
                ties: pair.ties,
            };
            (pairs.into_iter().map(tally).collect(), items, None, Vec::new())
        };
        Ok(ArenaRanking { review: review.name, ranking: rank(&tallies), tallies, as_of, warnings, pairs })
    }
}

/// Counts the votes of an arena: each has two rows, of which that of the release first by name counts.
fn tallies(frame: &DataFrame, arena: &Id) -> Result<Vec<Tally>> {
    let mut tallies = BTreeMap::<[&str; 2], Tally>::new();
    let tags = ["against", "arena"].map(|tag| frame.column(&format!("{TAG_PREFIX}{tag}")).ok());
    let [Some(against), Some(arenas)] = tags else { return Ok(Vec::new()) };
    let releases = frame.column("release").map_err(failed)?.str().map_err(failed)?;
    let (against, arenas) = (against.str().map_err(failed)?, arenas.str().map_err(failed)?);
    let values = frame.column("value").map_err(failed)?.f64().map_err(failed)?;
    for row in 0..frame.height() {
        let (Some(release), Some(against), Some(value)) =
            (releases.get(row), against.get(row), values.get(row))
        else {
            continue;
        };
        let vote = Vote::ALL.into_iter().find(|vote| vote.points()[0] == value);
        let is_own = arenas.get(row) == Some(arena.as_str()) && release < against;
        let Some(vote) = vote.filter(|_| is_own) else { continue };
        let releases = [release.to_owned(), against.to_owned()];
        let tally = tallies.entry([release, against]).or_insert(Tally { releases, wins: [0, 0], ties: 0 });
        match vote {
            Vote::Left => tally.wins[0] += 1,
            Vote::Right => tally.wins[1] += 1,
            Vote::Tie => tally.ties += 1,
        }
    }
    Ok(tallies.into_values().collect())
}
