//! Answers of reviewers: each is decided once, in its item, and then appended as an outcome in the name of the reviewer; a vote
//! in an arena as two metrics, one of each release.

use std::{collections::BTreeMap, sync::Arc};

use catalog::{
    ARENA_METRIC, AnsweredBy, PredictionSaid, Review, ReviewAnswer, ReviewItem, ReviewLink, Served, Verdict,
    Workspace,
};
use event::{Error, ErrorKind, Id, Kind, Result, Timestamp, Values, Window, pseudonym::is_pseudonym};
use log::{
    audit::{Author, by, current},
    key::{self, ReviewItemId},
};
use serde_json::{Value, json};
use table::Policy;

use crate::{Batch, Ingest, SubmitError, batch::RowIssue, json::read_json_array};

/// Seconds for which an arena is not checked again for missing pairs.
pub(crate) const PAIRS_SECONDS: i64 = 300;

/// Decided answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The item, with its answer.
    pub item: ReviewItem,
    /// True if its outcome is appended. If not, it will be.
    pub is_appended: bool,
    /// True if the item had been answered with the same verdict before.
    pub is_repeat: bool,
}

/// Makes the events of an answer, which are always the same: an outcome, or for a vote two metrics, the points of each release.
/// These have one name, so they stand in one segment.
fn events_of(item: &ReviewItem, answer: &ReviewAnswer) -> Result<Batch, SubmitError> {
    // No client may send the pseudonym of an erased key.
    let is_erased = is_pseudonym(&item.key);
    let key = if is_erased { "-" } else { &item.key };
    let outcome = |name: &str, verdict: Value| {
        let mut row = json!({ "key": key, "predicted_at": item.predicted_at, "observed_at": answer.at });
        row[name] = verdict;
        row
    };
    let (kind, rows) = match (&answer.verdict, &item.said[..]) {
        (Verdict::Label(label), _) => (Kind::Outcomes, vec![outcome("label", json!(label))]),
        (Verdict::Value(value), _) => (Kind::Outcomes, vec![outcome("value", json!(value))]),
        (Verdict::Vote(vote), [left, right]) => {
            let [of_left, of_right] = vote.points();
            let metric = |value: f64, release: &PredictionSaid, against: &PredictionSaid| {
                json!({
                    "name": format!("{ARENA_METRIC}{}", item.review),
                    "measured_at": answer.at,
                    "release": release.release,
                    "value": value,
                    "key": key,
                    "predicted_at": item.predicted_at,
                    "tags": {
                        "against": against.release,
                        "arena": item.id.review,
                        "item": item.id.number.to_string(),
                    },
                })
            };
            (Kind::Metrics, vec![metric(of_left, left, right), metric(of_right, right, left)])
        }
        (Verdict::Vote(_), _) => {
            return Err(Error::corrupt(format!("the item {} of an arena has no two sides", item.id)).into());
        }
    };
    let mut events = read_json_array(kind, json!(rows).to_string().as_bytes(), answer.at)?;
    let all = events.columns.rows;
    for column in events.columns.columns.iter_mut().filter(|column| is_erased && kind.is_key(&column.name)) {
        column.values = Values::Text((0..all).map(|_| item.key.as_str()).collect());
    }
    Ok(events)
}

/// Checks that a review accepts a verdict.
fn check_verdict(review: &Review, verdict: &Verdict) -> Result<()> {
    let labels = &review.spec.labels;
    let refusal = match (verdict, review.spec.is_arena()) {
        (Verdict::Vote(_), false) => "vote: the review is no arena, and takes no votes".to_owned(),
        (Verdict::Label(_) | Verdict::Value(_), true) => {
            "vote: an arena takes `left`, `right` or `tie`".to_owned()
        }
        (Verdict::Value(_), false) if !labels.is_empty() => "value: the review asks for a label".to_owned(),
        (Verdict::Label(label), false) if !labels.is_empty() && !labels.contains(label) => {
            format!("label: the review takes one of {}", labels.join(", "))
        }
        _ => return Ok(()),
    };
    Err(Error::invalid(refusal))
}

/// Finds the rows of an ordinary batch that would be votes.
pub(crate) fn forged_votes(batch: &Batch) -> Vec<RowIssue> {
    let names = batch.columns.column("name").filter(|_| batch.kind == Kind::Metrics);
    let issue = |row| {
        let name = names?.text(row).filter(|name| name.starts_with(ARENA_METRIC))?;
        let why =
            format!("`{name}` begins with `{ARENA_METRIC}`, as votes in arenas do; choose another name");
        Some((row, "name", why))
    };
    (0..batch.rows()).filter_map(issue).collect()
}

impl Ingest {
    /// Reads the review of an item whose events are kept.
    async fn review_of(&self, item: &ReviewItem) -> Result<Review> {
        let (id, day) = (&item.id, item.predicted_at.day());
        let found = match self.catalog().review(&id.workspace, &item.review).await {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found?),
        };
        let gone = || Error::not_found(format!("the review `{}` was deleted", item.review));
        let review = found.filter(|review| review.id == id.review).ok_or_else(gone)?;
        let kept = self.catalog().kept(&id.workspace, Window::of(day), self.clock().now()).await?;
        match kept.keeps(day) {
            true => Ok(review),
            false => Err(Error::conflict(format!("the events of {day} have expired"))),
        }
    }

    /// Serves the item that a reviewer is to judge next, for some seconds; see [`catalog::Catalog::serve`]. An arena that lacks a
    /// pair of live releases gets it first.
    ///
    /// # Errors
    /// `Conflict`, when the workspace is being deleted; those of [`catalog::Catalog::serve`].
    pub async fn next_of(
        &self,
        (workspace, review): (&Id, &Review),
        (reviewer, seconds): (&str, i64),
    ) -> Result<Option<Served>> {
        let at = self.workspace(workspace.as_str()).await?;
        at.check_open()?;
        let now = self.clock().now();
        let mut window = review.spec.window();
        if review.spec.is_arena() {
            self.pick_pairs(&at, review, now).await;
            // A refreshed arena has items of later days too.
            window = window.until(now.day());
        }
        let kept = self.catalog().kept(workspace, window, now).await?;
        let keeps = |day| kept.keeps(day);
        self.catalog().serve((workspace, review), (reviewer, seconds), &keeps, now).await
    }

    /// Picks items of pairs that an arena lacks since a release went live. A failure does not keep anybody from judging the
    /// present items.
    async fn pick_pairs(&self, workspace: &Workspace, review: &Review, now: Timestamp) {
        let Some(reader) = &self.reader else { return };
        let picking = async {
            let picked = match self.catalog().lacks_pairs(workspace.id(), review).await {
                Ok(true) => reader.pick_pairs(workspace, &review.name).await,
                other => other.map(|_| ()),
            };
            // In a conflict another process picks the same for the arena.
            if let Err(error) = picked
                && !error.is_conflict()
            {
                tracing::warn!(workspace = %workspace.id(), arena = review.name, %error, "an arena lacks pairs of live releases");
            }
            Ok(())
        };
        // It has no failures.
        _ = self.arenas.get(review.id.clone(), now, picking).await;
    }

    /// Reads the item that may be judged by a link, with its review.
    ///
    /// # Errors
    /// `NotFound`, when the link is not valid; `Conflict`, when it was used, its time is over, or the day of the item has
    /// expired; those of the table.
    pub async fn asked_by(&self, link: &ReviewLink) -> Result<(Review, ReviewItem)> {
        let by = AnsweredBy::Link(link.digest());
        let item = self.catalog().item_of(link.item(), &by, None, self.clock().now()).await?;
        Ok((self.review_of(&item).await?, item))
    }

    /// Answers an item: decides the verdict, and appends it as an outcome. A repeat of the same answer succeeds.
    ///
    /// # Errors
    /// `NotFound`, when there is no such item or review, or the link is not valid; `Conflict`, when the caller does not have the
    /// item (any more), it was answered otherwise, or its day has expired; `Invalid` and refusals of rows, when the review or the
    /// log accepts no such answer; those of the table.
    pub async fn answer(
        &self,
        id: &ReviewItemId,
        answered_by: &AnsweredBy,
        verdict: Verdict,
    ) -> Result<Answered, SubmitError> {
        self.workspace(id.workspace.as_str()).await?.check_open()?;
        let mut tries = Policy { pauses: true, ..Policy::of(&"an item of a review") }.tries();
        let (item, is_repeat) = loop {
            tries.next().await?;
            let now = self.clock().now();
            let item = self.catalog().item_of(id, answered_by, Some(&verdict), now).await?;
            if item.answer.is_some() {
                break (item, true);
            }
            check_verdict(&self.review_of(&item).await?, &verdict)?;
            let lease = item.lease.as_ref().ok_or_else(|| Error::conflict("nobody has this item"))?;
            let (verdict, reviewer) = (verdict.clone(), lease.reviewer.clone());
            let answer = ReviewAnswer { verdict, reviewer, at: now, after: BTreeMap::new() };
            let events = events_of(&item, &answer)?;
            let after = self.bounds_of(&id.workspace, (events.kind, events.columns)).await?;
            let after = after.into_iter().map(|(log, seq)| (log.to_string(), seq)).collect();
            if let Some(item) = self.catalog().decide_answer(item, ReviewAnswer { after, ..answer }).await? {
                break (item, false);
            }
        };
        // From the decision on it always succeeds: the projector appends the answer if this fails now.
        let finished = self.finish_answer(&item).await;
        if let Err(error) = &finished {
            tracing::warn!(workspace = %id.workspace, item = %id, %error, "an answer is decided; the projector appends it");
        }
        Ok(Answered { item, is_appended: finished.is_ok(), is_repeat })
    }

    /// Appends the events of an answered item, if they are owed, in the name of its reviewer.
    async fn finish_answer(&self, item: &ReviewItem) -> Result<()> {
        let (id, Some(answer)) = (&item.id, &item.answer) else { return Ok(()) };
        if !self.catalog().is_owed(id).await? {
            return Ok(());
        }
        let events = events_of(item, answer)
            .map_err(|refused| Error::corrupt(format!("the answer to {id} is no event: {refused}")))?;
        let (lanes, kept) = self.kept_of(&id.workspace, (events.kind, events.columns)).await?;
        if kept.rows() > 0 {
            let author = Author { principal: answer.reviewer.clone(), ..Author::clone(&current()) };
            let author = author.from_source(&format!("job=review; run={}", id.review))?;
            let wrong = || Error::corrupt(format!("the answer to {id} names no logs"));
            let log = |(log, seq): (&String, &u64)| Some((key::parse_log(&id.workspace, log)?, *seq));
            let after = answer.after.iter().map(log).collect::<Option<_>>().ok_or_else(wrong)?;
            by(Arc::new(author), self.appender.append_answer(id, lanes, kept, &after)).await?;
        }
        self.catalog().note_appended(id).await
    }

    /// Appends the answers of a workspace that were decided and not appended. Returns their number.
    ///
    /// # Errors
    /// Errors of the table; `Conflict`, when the workspace is being deleted. It may be called again.
    pub async fn finish_answers(&self, workspace: &Id) -> Result<u64> {
        let owed = self.catalog().owed_answers(workspace).await?;
        for item in &owed {
            self.finish_answer(item).await?;
        }
        Ok(owed.len() as u64)
    }
}
