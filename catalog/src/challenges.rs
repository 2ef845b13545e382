//! Comparisons of live releases with releases that predict beside them: one item a workspace. A projector decides each
//! comparison once, by the data known then; nobody recomputes it.

use event::{Day, Id, Result, Timestamp};
use fold::paired::{Measure, Ongoing, SoFar, Winner};
use log::key;
use serde::{Deserialize, Serialize};
use table::{Item, Table};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Maximum comparisons in progress in a workspace.
pub const MAX_CHALLENGES: usize = 64;

/// The comparisons of a workspace that are in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Challenges {
    /// Counts the writes.
    pub ver: i64,
    /// The last day that was compared.
    pub day: Day,
    /// The comparisons, each as of that day.
    pub all: Vec<Challenge>,
}

/// A release that predicts beside the live one of its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Challenge {
    /// Environment in which the champion is live.
    pub environment: String,
    /// The model, by name.
    pub model: String,
    /// The live release.
    pub champion: String,
    /// The release that predicts beside it.
    pub challenger: String,
    /// The first day on which they were compared.
    pub since: Day,
    /// State of the sequential test of the challenger's advantage.
    pub ongoing: Ongoing,
    /// True if the decision was announced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_told: bool,
}

/// Announcement to followers of the model that a comparison is decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Time of the decision.
    pub at: Timestamp,
    /// The model, by name.
    pub model: String,
    /// The release that predicts beside the live one.
    pub challenger: String,
    /// Environment in which the other release is live.
    pub environment: String,
    /// Text of the announcement.
    pub text: String,
}

impl Challenges {
    /// Reads the comparisons of a workspace; `None` before the first.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn load(table: &dyn Table, workspace: &Id) -> Result<Option<Self>> {
        let item = table.get(&key::challenges(workspace)).await?;
        item.as_ref().map(Self::from_item).transpose()
    }

    /// Decodes an item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.to_record(ITEM_VERSION)
    }

    /// Encodes it as an item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        Item::record(key::challenges(workspace), ITEM_VERSION, self)
    }
}

impl Challenge {
    /// Creates a comparison that begins with a day.
    pub fn new([challenger, champion]: [&str; 2], model: &str, environment: &str, since: Day) -> Self {
        Self {
            environment: environment.to_owned(),
            model: model.to_owned(),
            champion: champion.to_owned(),
            challenger: challenger.to_owned(),
            since,
            ongoing: Ongoing::default(),
            is_told: false,
        }
    }

    /// Returns whether both compare the same releases in the same environment.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let of =
            |one: &Self| [&one.environment, &one.model, &one.champion, &one.challenger].map(Clone::clone);
        of(self) == of(other)
    }

    /// Returns the announcement of a decision; `None` if it is not decided, or was announced before.
    pub fn decision(&self, day: Day, at: Timestamp) -> Option<Decision> {
        let (measure, so_far) = self.ongoing.says();
        let winner = so_far.winner().filter(|_| !self.is_told)?;
        Some(Decision {
            at,
            model: self.model.clone(),
            challenger: self.challenger.clone(),
            environment: self.environment.clone(),
            text: self.says(winner, measure, &so_far, day),
        })
    }

    fn says(&self, winner: Winner, measure: Measure, so_far: &SoFar, day: Day) -> String {
        let Self { environment, champion, challenger, since, .. } = self;
        let advantage = so_far.advantage.unwrap_or_default();
        let better = match winner {
            Winner::First => "better",
            Winner::Second => "worse",
        };
        let by = match measure {
            Measure::Brier => "Brier score",
            Measure::Accuracy => "accuracy",
            Measure::Wins => "share of wins less losses",
        };
        let ((low, high), n) = (so_far.bounds, so_far.n);
        format!(
            "{challenger} is {better} than {champion}, which is live in {environment}: \
             its advantage by {by} is {advantage:+.4} ({low:+.4} to {high:+.4}) over {n} predictions of both from {since} to {day}"
        )
    }
}

#[cfg(test)]
mod tests {
    use fold::paired::{Meeting, Side};

    use super::*;

    fn meetings(n: u64) -> Vec<Meeting> {
        let side = |distance| Side { distance, ..Side::default() };
        (0..n).map(|key| Meeting { key, sides: [side(0.1), side(0.4)], ..Meeting::default() }).collect()
    }

    fn challenge(n: u64) -> Challenge {
        let mut challenge =
            Challenge::new(["v2", "v1"], "delays", "production", "2013-06-01".parse().unwrap());
        challenge.ongoing.add(meetings(n));
        challenge
    }

    /// What a program stored, a later one must read.
    #[test]
    fn the_item_of_version_1_stays_readable() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let told = Challenge { is_told: true, ..challenge(1) };
        let all = Challenges { ver: 3, day: "2013-06-02".parse().unwrap(), all: vec![told, challenge(0)] };
        let item = all.to_item(&workspace);
        insta::assert_snapshot!(serde_json::to_string(&all.all).unwrap());
        assert_eq!(
            (item.int("v").unwrap(), item.int("ver").unwrap(), item.text("day").unwrap()),
            (1, 3, "2013-06-02")
        );
        assert_eq!(Challenges::from_item(&item).unwrap(), all);
        assert!(Challenges::from_item(&item.clone().with("all", "[{}]")).is_err());
        assert!(Challenges::from_item(&item.with("v", 2)).is_err());
    }

    #[test]
    fn maximum_challenges_fit_in_one_item() {
        let name = "n".repeat(event::id::MAX_NAME_BYTES);
        let mut long = Challenge::new([&name, &name], &name, &name, "2013-06-01".parse().unwrap());
        long.ongoing = challenge(1_000).ongoing;
        let all = Challenges { ver: i64::MAX, day: long.since, all: vec![long; MAX_CHALLENGES] };
        let item = all.to_item(&Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap());
        assert!(item.size() < table::item::MAX_ITEM_BYTES / 2, "{}", item.size());
    }

    #[test]
    fn it_is_told_once_and_in_words() {
        let day = "2013-06-02".parse().unwrap();
        assert_eq!(challenge(5).decision(day, Timestamp::default()), None, "too few");
        let decided = challenge(500).decision(day, Timestamp::default()).unwrap();
        assert_eq!((decided.challenger.as_str(), decided.environment.as_str()), ("v2", "production"));
        assert_eq!(
            decided.text,
            "v2 is better than v1, which is live in production: its advantage by share of wins less losses is +1.0000 (+0.9699 to +1.0000) over 500 predictions of both from 2013-06-01 to 2013-06-02"
        );
        let told = Challenge { is_told: true, ..challenge(500) };
        assert_eq!(told.decision(day, Timestamp::default()), None);
    }

    /// 300 wins and then 400 losses: of a day on which predictions change, the mean and the bounds may point to different sides.
    #[test]
    fn decision_names_winner_by_side_of_bounds() {
        let day = "2013-06-02".parse().unwrap();
        let mut turned = meetings(700);
        turned.iter_mut().filter(|met| met.key >= 300).for_each(|met| met.sides.reverse());
        let mut challenge = challenge(0);
        challenge.ongoing.add(turned);
        let text = challenge.decision(day, Timestamp::default()).unwrap().text;
        assert!(
            text.starts_with("v2 is better than v1, ") && text.contains(" is -0.1429 (+0.4253 to "),
            "{text}"
        );
    }
}
