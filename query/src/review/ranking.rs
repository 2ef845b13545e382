//! Ranking of the releases of an arena: by the stored counts of its votes, or, as of a time, by the votes in the log.

use std::collections::BTreeMap;

use catalog::{ARENA_METRIC, ArenaPair, Review, Vote, http::pair_json};
use event::{Id, Kind, Result, Timestamp, fields::TAG_PREFIX};
use fold::ranking::{Ranking, Tally, rank};
use polars::prelude::DataFrame;
use serde_json::{Value, json};

use crate::{
    Query,
    answer::Answer,
    frame::failed,
    request::{Request, What, Words},
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
    /// The pairs of the arena, with true if both releases are live; empty for a ranking as of a time.
    pairs: Vec<(ArenaPair, bool)>,
}

impl ArenaRanking {
    fn of(review: &Review, tallies: Vec<Tally>) -> Self {
        let ranking = rank(&tallies);
        let (as_of, warnings, pairs) = (None, Vec::new(), Vec::new());
        Self { review: review.name.clone(), ranking, tallies, as_of, warnings, pairs }
    }

    /// Returns it as JSON.
    pub fn to_json(&self) -> Value {
        let release = |ranked: &fold::ranking::Ranked| {
            let of = |get: fn(fold::ranking::Strength) -> f64| ranked.strength.map(get);
            json!({
                "release": ranked.release, "wins": ranked.wins, "losses": ranked.losses, "ties": ranked.ties,
                "strength": of(|strength| strength.value), "lower": of(|strength| strength.lower),
                "upper": of(|strength| strength.upper),
            })
        };
        let of_log = self.tallies.iter().map(|tally| {
            let [release, against] = &tally.releases;
            json!({
                "release": release, "against": against, "wins": tally.wins[0], "losses": tally.wins[1],
                "ties": tally.ties,
            })
        });
        let of_table = self.pairs.iter().map(|(pair, is_live)| pair_json(pair, *is_live));
        let pairs: Vec<Value> = if self.as_of.is_some() { of_log.collect() } else { of_table.collect() };
        json!({
            "review": self.review,
            "as_of": self.as_of.map(|at| at.to_string()),
            "votes": self.tallies.iter().map(Tally::votes).sum::<u64>(),
            "connected": self.ranking.is_connected,
            "releases": self.ranking.releases.iter().map(release).collect::<Vec<_>>(),
            "pairs": pairs,
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
        let catalog = self.catalog();
        let review = catalog.review(workspace, name).await?;
        let arena = review.arena()?;
        let Some(as_of) = as_of else {
            let pairs = catalog.arena_pairs(workspace, &review.id).await?;
            let live = catalog.live_releases(workspace, review.spec.model.as_deref()).await?;
            let is_live = |pair: &ArenaPair| {
                !arena.releases.is_empty() || pair.releases.iter().all(|release| live.contains(release))
            };
            let tally = |pair: &ArenaPair| Tally {
                releases: pair.releases.clone(),
                wins: pair.wins,
                ties: pair.ties,
            };
            let ranking = ArenaRanking::of(&review, pairs.iter().map(tally).collect());
            let pairs = pairs.into_iter().map(|pair| (is_live(&pair), pair)).map(|(is, pair)| (pair, is));
            return Ok(ArenaRanking { pairs: pairs.collect(), ..ranking });
        };
        let answer = self.votes_as_of(workspace, &review, as_of).await?;
        let tallies = tallies(&answer.frame, &review.id)?;
        let (as_of, warnings) = (answer.as_of, answer.warnings);
        Ok(ArenaRanking { as_of, warnings, ..ArenaRanking::of(&review, tallies) })
    }

    async fn votes_as_of(&self, workspace: &Id, review: &Review, as_of: &str) -> Result<Answer> {
        let (from, to) = (review.created_at.day().to_string(), self.now().day().to_string());
        let filter = format!("name = '{ARENA_METRIC}{}'", review.name);
        let words =
            Words { from: &from, to: &to, filter: Some(&filter), as_of: Some(as_of), ..Words::default() };
        self.run(workspace, &Request::parse(What::Events(Kind::Metrics), &words)?).await
    }
}

/// Counts the votes of an arena: each has two rows, of which that of the release first by name counts.
fn tallies(frame: &DataFrame, arena: &Id) -> Result<Vec<Tally>> {
    let mut votes = BTreeMap::<&str, (&str, &str, f64)>::new();
    let tags = ["against", "arena", "item"].map(|tag| frame.column(&format!("{TAG_PREFIX}{tag}")).ok());
    let [Some(against), Some(arenas), Some(items)] = tags else { return Ok(Vec::new()) };
    let text = |column: &polars::prelude::Column| column.str().cloned().map_err(failed);
    let releases = text(frame.column("release").map_err(failed)?)?;
    let (against, arenas, items) = (text(against)?, text(arenas)?, text(items)?);
    let values = frame.column("value").map_err(failed)?.f64().map_err(failed)?;
    for row in 0..frame.height() {
        let (Some(release), Some(against), Some(of), Some(item), Some(value)) =
            (releases.get(row), against.get(row), arenas.get(row), items.get(row), values.get(row))
        else {
            continue;
        };
        if of == arena.as_str() && release < against {
            votes.entry(item).or_insert((release, against, value));
        }
    }
    let mut tallies = BTreeMap::<[&str; 2], Tally>::new();
    for (release, against, value) in votes.into_values() {
        let points = |vote: &Vote| vote.points()[0] == value;
        // Any other value was appended by somebody else under the name of the metric.
        let Some(vote) = Vote::ALL.into_iter().find(points) else { continue };
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
