//! The leaderboard: the live releases of a workspace, by its primary metric. A release is on it by the
//! attributes `board` and `score`, which place it in a sparse index; the projector keeps them.

use event::{Day, Error, Id, Result};
use log::key;
use table::{
    Condition, Index, Item, Key, Query, Update, Write,
    item::{Number, Value},
    query_all, unless_overtaken,
};

use super::{Catalog, PrimaryMetric};

/// The most releases of a leaderboard.
pub const MAX_BOARD: usize = 1_000;

/// Where a release stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The metric, by name.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// The last of the days that it is of.
    pub day: Day,
    /// On how many of them the release was judged.
    pub days: u64,
    /// How many of its predictions were judged on them.
    pub n: u64,
    /// Whether these are enough to be ranked; else it stands behind those that are.
    pub is_ranked: bool,
    /// The environments in which the release is live.
    pub environments: Vec<String>,
}

/// A release and where it stands, if it is on the board.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedRelease {
    /// The release, by name.
    pub release: String,
    /// Its model, by the name that it had.
    pub model: String,
    /// Its model.
    pub model_id: Id,
    /// Where it stands.
    pub ranked: Option<Ranked>,
    /// Its score: the greater the better.
    pub score: Option<f64>,
    key: Key,
}

/// The score of what is judged too little to be ranked: it stands behind everything that is.
const UNRANKED: &str = "-9E+120";

/// Scores from this size to one by it are indexed as they are. Engines keep no number below 1e-130 or above 9.9e125, and metrics
/// may be any doubles.
const GREAT: f64 = 1e100;

/// What is read of a release.
const READ: [&str; 12] = [
    "name",
    "model",
    "GSI1PK",
    "board",
    "score",
    "board_metric",
    "board_value",
    "board_day",
    "board_days",
    "board_n",
    "board_low",
    "board_in",
];

/// What of it places it on the board.
const PLACE: &[&str] = READ.split_at(3).1;

impl RankedRelease {
    fn from_item(item: &Item) -> Result<Self> {
        let number = |name: &str| match item.attributes.get(name) {
            Some(Value::N(number)) => Ok(number.as_f64()),
            _ => Err(item.corrupt(format_args!("`{name}` is no number"))),
        };
        let value = || {
            let value = item.text("board_value")?.parse();
            value.map_err(|_| item.corrupt("`board_value` is no number"))
        };
        // An older Almanac noted neither days nor how many were judged.
        let count = |name: &str, missing: u64| match item.attributes.contains_key(name) {
            true => u64::try_from(item.int(name)?).map_err(|_| item.corrupt(name)),
            false => Ok(missing),
        };
        let is_ranked = item.attributes.contains_key("board");
        let ranked = || {
            let text = |value: &Value| match value {
                Value::S(text) => Ok(text.clone()),
                _ => Err(item.corrupt("an environment is no text")),
            };
            Ok::<_, Error>(Ranked {
                metric: item.text("board_metric")?.to_owned(),
                value: value()?,
                day: item.text("board_day")?.parse()?,
                days: count("board_days", 1)?,
                n: count("board_n", 0)?,
                is_ranked: !item.attributes.contains_key("board_low"),
                environments: item.list("board_in")?.iter().map(text).collect::<Result<_>>()?,
            })
        };
        Ok(Self {
            release: item.text("name")?.to_owned(),
            model: item.text("model")?.to_owned(),
            model_id: key::parse_release_index(item.text("GSI1PK")?)
                .ok_or_else(|| item.corrupt("`GSI1PK` names no model"))?,
            ranked: is_ranked.then(ranked).transpose()?,
            score: is_ranked.then(|| number("score")).transpose()?,
            key: item.key.clone(),
        })
    }
}

/// Where a release stands in the index: the greater the better.
fn score_of((ranked, primary): (&Ranked, &PrimaryMetric)) -> Result<Number> {
    match ranked.is_ranked {
        true => Number::parse(&indexed(primary.score(ranked.value)).to_string()),
        false => Number::parse(UNRANKED),
    }
}

/// A number that any engine keeps, in the order of the scores: what is very great or small by its logarithm.
fn indexed(score: f64) -> f64 {
    // Half of the decades of doubles, so that each has its place between zero and the least that stays as it is.
    const DECADES: f64 = 400.0;
    let size = score.abs().min(f64::MAX);
    let size = if size > GREAT {
        GREAT * (1.0 + (size / GREAT).log10())
    } else if size > 0.0 && size < 1.0 / GREAT {
        (1.0 - (1.0 / GREAT / size).log10() / DECADES) / GREAT
    } else {
        size
    };
    // Zero has no sign.
    size.copysign(score) + 0.0
}

impl Catalog {
    /// The live releases of a workspace, the best first, and behind them those that were judged too little: one query
    /// of the sparse index.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_BOARD`]; those of the table.
    pub async fn leaderboard(&self, workspace: &Id, limit: usize) -> Result<Vec<RankedRelease>> {
        if !(1..=MAX_BOARD).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_BOARD}")));
        }
        let query = Query::index(Index::Board, key::workspace_page(workspace)).backward().limit(limit);
        self.table.query(&query).await?.items.iter().map(RankedRelease::from_item).collect()
    }

    /// All releases of a workspace, with where they stand.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn ranks(&self, workspace: &Id) -> Result<Vec<RankedRelease>> {
        let query = Query::table(key::releases(workspace)).only(&READ);
        query_all(&*self.table, query).await?.iter().map(RankedRelease::from_item).collect()
    }

    /// Puts a release where it stands now, or takes it off the board. Nothing else of it is touched;
    /// where it stands there already, nothing is written.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn rank(
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
            Some((ranked, _)) => {
                let environments = ranked.environments.iter().map(|name| Value::from(name.as_str()));
                let update = match (ranked.is_ranked, score) {
                    (true, Some(score)) => update.remove("board_low").set("score", Value::N(score)),
                    (_, score) => {
                        update.set("board_low", 1).set("score", score.map_or(Value::Null, Value::N))
                    }
                };
                update
                    .set("board_days", ranked.days as i64)
                    .set("board_n", ranked.n as i64)
                    .set("board", key::workspace_page(workspace))
                    .set("board_metric", ranked.metric.as_str())
                    .set("board_value", ranked.value.to_string())
                    .set("board_day", ranked.day.to_string())
                    .set("board_in", environments.collect::<Vec<_>>())
            }
        };
        // Unless the release was deleted.
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
