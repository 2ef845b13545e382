//! Leaderboard: the live releases of a workspace, each with its primary metric over the last days on which any of them was judged
//! by it. A release is on it by the attributes `leaderboard` and `score`, which place it in a sparse index, and `place`. The projector
//! refreshes it after each evaluation; a change of the settings refreshes it at once.

use std::collections::BTreeMap;

use event::{Day, Error, Id, Result, Timestamp};
use fold::Windowed;
use log::{active, key};
use serde::{Deserialize, Serialize};
use table::{
    Condition, Index, Item, Key, Query, Update, Write,
    item::{Number, Value},
    query_all, unless_overtaken,
};

use super::{Catalog, PrimaryMetric, Recent, Settings, last_whole_day};

/// Days before the latest projected one that are searched for a value of the primary metric.
const DAYS_LOOKED_AT: usize = 31;

/// Maximum releases of a leaderboard.
pub const MAX_LEADERBOARD: usize = 1_000;

/// Rank of a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Name of the metric.
    pub metric: String,
    /// Value of the metric.
    pub value: f64,
    /// Last day that the value covers.
    pub day: Day,
    /// Number of these days on which the release was judged.
    pub days: u64,
    /// Number of its predictions that were judged on them.
    pub n: u64,
    /// True if these are enough to be ranked; else the release stands behind the ranked ones.
    pub is_ranked: bool,
    /// Environments in which the release is live.
    pub environments: Vec<String>,
}

/// Release and its rank, if it is on the leaderboard.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedRelease {
    /// Name of the release.
    pub release: String,
    /// Name of its model at that time.
    pub model: String,
    /// Id of its model.
    pub model_id: Id,
    /// Rank of the release.
    pub ranked: Option<Ranked>,
    /// Its score: the greater the better.
    pub score: Option<f64>,
    key: Key,
}

/// Score of a release with too few judged predictions to be ranked, behind every ranked release.
const UNRANKED: &str = "-9E+120";

/// Scores whose size is between this and its inverse are indexed unchanged. Engines keep no number below 1e-130 or above 9.9e125,
/// and metrics may be any doubles.
const GREAT: f64 = 1e100;

/// Attributes read of a release.
const READ: [&str; 6] = ["name", "model", "GSI1PK", "board", "score", "place"];

/// Attributes that place a release on the leaderboard. The audit log leaves them out: they are no decisions of people.
const PLACE: &[&str] = READ.split_at(3).1;

impl RankedRelease {
    fn from_item(item: &Item) -> Result<Self> {
        let is_placed = item.attributes.contains_key("board");
        let score = || match item.attributes.get("score") {
            Some(Value::N(number)) => Ok(number.as_f64()),
            _ => Err(item.corrupt("`score` is no number")),
        };
        Ok(Self {
            release: item.text("name")?.to_owned(),
            model: item.text("model")?.to_owned(),
            model_id: key::parse_release_index(item.text("GSI1PK")?)
                .ok_or_else(|| item.corrupt("`GSI1PK` names no model"))?,
            ranked: is_placed.then(|| item.field("place")).transpose()?,
            score: is_placed.then(score).transpose()?,
            key: item.key.clone(),
        })
    }
}

/// Score of a release in the index: the greater the better.
fn score_of((ranked, primary): (&Ranked, &PrimaryMetric)) -> Result<Number> {
    match ranked.is_ranked {
        true => Number::parse(&indexed(primary.score(ranked.value)).to_string()),
        false => Number::parse(UNRANKED),
    }
}

/// Number that any engine keeps, in the order of the scores: a very great or small score is replaced by its logarithm.
fn indexed(score: f64) -> f64 {
    // Half of the decades of doubles, so that each has its place between zero and the least unchanged score.
    const DECADES: f64 = 400.0;
    let size = score.abs().min(f64::MAX);
    let size = if size > GREAT {
        GREAT * (1.0 + (size / GREAT).log10())
    } else if size > 0.0 && size < 1.0 / GREAT {
        (1.0 - (1.0 / GREAT / size).log10() / DECADES) / GREAT
    } else {
        size
    };
    // Removes the sign of zero.
    size.copysign(score) + 0.0
}

impl Catalog {
    /// Reads the live releases of a workspace, the best first, and behind them the unranked ones: one query of the sparse index.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_LEADERBOARD`]; those of the table.
    pub async fn leaderboard(&self, workspace: &Id, limit: usize) -> Result<Vec<RankedRelease>> {
        if !(1..=MAX_LEADERBOARD).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_LEADERBOARD}")));
        }
        let query = Query::index(Index::Board, key::workspace_page(workspace)).backward().limit(limit);
        self.table.query(&query).await?.items.iter().map(RankedRelease::from_item).collect()
    }

    /// Reads all releases of a workspace, with their ranks.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn ranks(&self, workspace: &Id) -> Result<Vec<RankedRelease>> {
        let query = Query::table(key::releases(workspace)).only(&READ);
        query_all(&*self.table, query).await?.iter().map(RankedRelease::from_item).collect()
    }

    /// Brings the leaderboard of a workspace up to date with its settings, its live releases and its projections. If no release
    /// is live and none ranked, it reads the settings and the live releases; else also the releases, and days from the latest one
    /// backwards until the window is full.
    ///
    /// If several processes refresh at one time, the last write holds; the next evaluation, release event, change of the settings
    /// or sweep corrects it.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn refresh_leaderboard(&self, workspace: &Id, now: Timestamp) -> Result<()> {
        let settings = self.settings(workspace).await?;
        let Some(primary) = &settings.primary_metric else {
            for release in self.leaderboard(workspace, MAX_LEADERBOARD).await? {
                self.rank(workspace, &release, None).await?;
            }
            return Ok(());
        };
        let mut live = BTreeMap::<String, Vec<String>>::new();
        for (environment, state) in self.live_now(workspace).await? {
            for release in state.into_values() {
                live.entry(release.release).or_default().push(environment.clone());
            }
        }
        let names: Vec<String> = live.keys().cloned().collect();
        let values = self.last_values(workspace, (&settings, primary), &names, now).await?;
        for release in self.ranks(workspace).await? {
            let found = values.get(&release.release).zip(live.get(&release.release));
            let ranked = found.and_then(|((day, window), environments)| {
                Some(Ranked {
                    metric: primary.metric.name().to_owned(),
                    value: window.value().filter(|value| value.is_finite())?,
                    day: (*day)?,
                    days: window.days(),
                    n: window.n(),
                    is_ranked: window.n() >= settings.min_n_of(&primary.metric),
                    environments: environments.clone(),
                })
            });
            self.rank(workspace, &release, ranked.as_ref().map(|ranked| (ranked, primary))).await?;
        }
        Ok(())
    }

    /// Computes the primary metric of each of the `wanted` releases over the days of the window, and the last day on which it is
    /// defined. The window ends with the latest of the judged days on which it is defined for any of them.
    async fn last_values(
        &self,
        workspace: &Id,
        (settings, primary): (&Settings, &PrimaryMetric),
        wanted: &[String],
        now: Timestamp,
    ) -> Result<BTreeMap<String, (Option<Day>, Windowed)>> {
        let mut values = BTreeMap::<String, (Option<Day>, Windowed)>::new();
        if wanted.is_empty() {
            return Ok(values);
        }
        let version = active::load(&*self.table, workspace).await?.version;
        let recent = Recent::of(&*self.table, version, workspace).await?;
        let Some(mut recent) = recent.map(|recent| match settings.leaderboard_delay {
            Some(delay) => recent.until(last_whole_day(now, delay)),
            None => recent,
        }) else {
            return Ok(values);
        };
        let metric = &primary.metric;
        let (mut left, mut looked_at) = (settings.days(), 0);
        while left > 0 && looked_at < DAYS_LOOKED_AT {
            let day = recent.step_back();
            if let Some(numbers) = recent.numbers(day, metric).await? {
                let is_defined = |name: &String| numbers.window(name, metric).value().is_some();
                // The window begins with the first day on which the metric is defined for any of them.
                if !values.is_empty() || wanted.iter().any(is_defined) {
                    let there = numbers.releases();
                    for name in wanted.iter().filter(|name| there.contains(&name.as_str())) {
                        let (last, window) = values
                            .entry(name.clone())
                            .or_insert_with(|| (None, Windowed::new(metric.clone())));
                        numbers.add_to(name, window);
                        *last = last.or(is_defined(name).then_some(day));
                    }
                }
            }
            if values.is_empty() { looked_at += 1 } else { left -= 1 }
        }
        Ok(values)
    }

    /// Writes the present rank of a release, or takes the release off the leaderboard. It changes no other attribute, and writes
    /// nothing if the rank is unchanged.
    ///
    /// # Errors
    /// Errors of the table.
    async fn rank(
        &self,
        workspace: &Id,
        release: &RankedRelease,
        ranked: Option<(&Ranked, &PrimaryMetric)>,
    ) -> Result<()> {
        let score = ranked.map(score_of).transpose()?;
        let as_f64 = score.as_ref().map(Number::as_f64);
        if release.ranked.as_ref() == ranked.map(|(ranked, _)| ranked) && release.score == as_f64 {
            return Ok(());
        }
        let update = Update::new(release.key.clone(), Condition::Exists);
        let update = match ranked {
            None => PLACE.iter().fold(update, |update, name| update.remove(name)),
            Some((ranked, _)) => update
                .set("board", key::workspace_page(workspace))
                .set("score", score.map_or(Value::Null, Value::N))
                .set("place", Value::record(ranked)),
        };
        // The update fails if the release was deleted.
        unless_overtaken(self.table.transact(vec![Write::Update(update)]).await).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use table::check;

    use super::*;

    #[test]
    fn every_score_is_indexed_in_its_order() {
        let sizes = [
            0.0,
            5e-324,
            1e-310,
            1e-200,
            1e-131,
            9e-101,
            1e-100,
            2e-100,
            0.5,
            1.0,
            1e99,
            1e100,
            1e101,
            1e126,
            1e300,
            f64::MAX,
        ];
        let less = sizes.iter().rev().map(|size| -size);
        let all: Vec<f64> = less.chain(sizes.iter().skip(1).copied()).map(indexed).collect();
        assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
        let unranked: f64 = UNRANKED.parse().unwrap();
        for score in all.iter().chain([&indexed(f64::INFINITY), &indexed(f64::NEG_INFINITY)]) {
            let stored = Number::parse(&score.to_string()).unwrap();
            assert!(check::is_number(&stored) && *score > unranked, "{score}");
        }
        assert_eq!([0.25, -0.75, 1e-100].map(indexed), [0.25, -0.75, 1e-100]);
    }
}
