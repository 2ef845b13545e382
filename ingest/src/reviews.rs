//! Answers of reviewers: each is decided once, in its item, and then appended as an outcome in the name of the reviewer; a vote
//! in an arena as two metrics, one of each release.

use std::{collections::BTreeMap, sync::Arc};

use catalog::{
    ARENA_METRIC, AnsweredBy, Review, ReviewAnswer, ReviewItem, ReviewLink, ReviewPolicy, ReviewStanding,
    Served, Verdict, Vote, Workspace,
};
use event::{Day, Error, ErrorKind, Id, Kind, Result, Timestamp, Values, Window, surrogate::is_surrogate};
use log::{
    audit::{Author, by, current},
    key::ReviewItemId,
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

/// Makes the events of an answer, which are always the same.
fn events_of(at: &ReviewItemId, item: &ReviewItem, answer: &ReviewAnswer) -> Result<Batch, SubmitError> {
    if let Verdict::Vote(vote) = answer.verdict {
        return votes_of(at, item, (vote, answer.at));
    }
    let mut row = json!({
        "predicted_at": item.predicted_at.to_string(),
        "observed_at": answer.at.to_string(),
    });
    match &answer.verdict {
        Verdict::Label(label) => row["label"] = label.as_str().into(),
        Verdict::Value(value) => row["value"] = (*value).into(),
        Verdict::Vote(_) => {}
    }
    said_of(Kind::Outcomes, vec![row], item, answer.at)
}

/// Makes the events of an answer to an item, whose key they have.
fn said_of(kind: Kind, mut rows: Vec<Value>, item: &ReviewItem, at: Timestamp) -> Result<Batch, SubmitError> {
    // No client may send the surrogate of an erased key.
    let is_erased = is_surrogate(&item.key);
    let key = if is_erased { "-" } else { &item.key };
    rows.iter_mut().for_each(|row| row["key"] = key.into());
    let mut events = read_json_array(kind, Value::Array(rows).to_string().as_bytes(), at)?;
    let all = events.columns.rows;
    for column in events.columns.columns.iter_mut().filter(|column| is_erased && kind.is_key(&column.name)) {
        column.values = Values::Text((0..all).map(|_| item.key.as_str()).collect());
    }
    Ok(events)
}

/// Makes the metrics of a vote: the points of each release. They have one name, so they stand in one segment.
fn votes_of(
    at: &ReviewItemId,
    item: &ReviewItem,
    (vote, voted_at): (Vote, Timestamp),
) -> Result<Batch, SubmitError> {
    let [left, right] = &item.said[..] else {
        return Err(Error::corrupt(format!("the item {at} of an arena has no two sides")).into());
    };
    let points = vote.points();
    let row = |own: usize, release: &str, against: &str| {
        json!({
            "name": format!("{ARENA_METRIC}{}", item.review),
            "measured_at": voted_at.to_string(),
            "release": release,
            "value": points[own],
            "predicted_at": item.predicted_at.to_string(),
            "tags": { "against": against, "arena": at.review.as_str(), "item": at.number.to_string() },
        })
    };
    let rows = vec![row(0, &left.release, &right.release), row(1, &right.release, &left.release)];
    said_of(Kind::Metrics, rows, item, voted_at)
}

/// Checks that a review accepts a verdict.
fn check_said(review: &Review, verdict: &Verdict) -> Result<()> {
    match (verdict, review.spec.policy) {
        (Verdict::Vote(_), ReviewPolicy::Pairs) => return Ok(()),
        (_, ReviewPolicy::Pairs) => {
            return Err(Error::invalid("vote: an arena takes `left`, `right` or `tie`"));
        }
        (Verdict::Vote(_), _) => {
            return Err(Error::invalid("vote: the review is no arena, and takes no votes"));
        }
        _ => {}
    }
    let labels = &review.spec.labels;
    let Verdict::Label(label) = verdict else {
        return match labels.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid("value: the review asks for a label")),
        };
    };
    match labels.is_empty() || labels.contains(label) {
        true => Ok(()),
        false => Err(Error::invalid(format!("label: the review takes one of {}", labels.join(", ")))),
    }
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
    /// Reads the review of an item.
    ///
    /// # Errors
    /// `NotFound`, when it was deleted; those of the table.
    pub async fn review_of(&self, at: &ReviewItemId, item: &ReviewItem) -> Result<Review> {
        let gone = || Error::not_found(format!("the review `{}` was deleted", item.review));
        match self.catalog().review(&at.workspace, &item.review).await {
            Ok(review) if review.id == at.review => Ok(review),
            Ok(_) => Err(gone()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(gone()),
            Err(error) => Err(error),
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
        self.pick_pairs(&at, review, now).await;
        // A refreshed arena has items of later days too.
        let last = review
            .spec
            .arena
            .as_ref()
            .map_or(review.spec.window.to(), |_| review.spec.window.to().max(now.day()));
        let kept = self.catalog().kept(workspace, Window::new(review.spec.window.from(), last)?, now).await?;
        let keeps = |day| kept.keeps(day);
        self.catalog().serve((workspace, review), (reviewer, seconds), &keeps, now).await
    }

    /// Picks items of pairs that an arena lacks since a release went live. A failure does not keep anybody from judging the
    /// present items.
    async fn pick_pairs(&self, workspace: &Workspace, review: &Review, now: Timestamp) {
        let Some(reader) = self.reader.as_ref().filter(|_| review.spec.arena.is_some()) else { return };
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
        let (at, by) = (link.item(), AnsweredBy::Link(link.digest()));
        let (ReviewStanding::Open(item) | ReviewStanding::Answered(item)) =
            self.catalog().review_standing(at, &by, None, self.clock().now()).await?;
        let review = self.review_of(at, &item).await?;
        self.check_kept(&at.workspace, item.predicted_at.day()).await?;
        Ok((review, item))
    }

    /// Answers an item: decides the verdict, and appends it as an outcome. A repeat of the same answer succeeds.
    ///
    /// # Errors
    /// `NotFound`, when there is no such item or review, or the link is not valid; `Conflict`, when the caller does not have the
    /// item (any more), it was answered otherwise, or its day has expired; `Invalid` and refusals of rows, when the review or the
    /// log accepts no such answer; those of the table.
    pub async fn answer(
        &self,
        at: &ReviewItemId,
        answered_by: &AnsweredBy,
        verdict: Verdict,
    ) -> Result<Answered, SubmitError> {
        self.workspace(at.workspace.as_str()).await?.check_open()?;
        let mut tries = Policy::of(&"an item of a review").tries();
        loop {
            tries.next().await?;
            let now = self.clock().now();
            let standing = self.catalog().review_standing(at, answered_by, Some(&verdict), now).await?;
            let item = match standing {
                ReviewStanding::Answered(item) => return Ok(self.finished(at, item, true).await),
                ReviewStanding::Open(item) => item,
            };
            check_said(&self.review_of(at, &item).await?, &verdict)?;
            self.check_kept(&at.workspace, item.predicted_at.day()).await?;
            let lease = item.lease.as_ref().ok_or_else(|| Error::conflict("nobody has this item"))?;
            let reviewer = lease.reviewer.clone();
            let (verdict, after) = (verdict.clone(), BTreeMap::new());
            let answer = ReviewAnswer { verdict, reviewer, at: now, after, is_appended: false };
            let events = events_of(at, &item, &answer)?;
            let after = self.bounds_of(&at.workspace, (events.kind, events.columns)).await?;
            let decided = self.catalog().decide_answer(at, item, ReviewAnswer { after, ..answer }).await?;
            if let Some(decided) = decided {
                return Ok(self.finished(at, decided, false).await);
            }
        }
    }

    async fn check_kept(&self, workspace: &Id, day: Day) -> Result<()> {
        let kept = self.catalog().kept(workspace, Window::of(day), self.clock().now()).await?;
        match kept.keeps(day) {
            true => Ok(()),
            false => Err(Error::conflict(format!("the events of {day} have expired"))),
        }
    }

    /// Appends a decided answer. From the decision on it always succeeds: the projector appends the answer if this fails now.
    async fn finished(&self, at: &ReviewItemId, item: ReviewItem, is_repeat: bool) -> Answered {
        let finished = self.finish_answer(at, &item).await;
        if let Err(error) = &finished {
            tracing::warn!(workspace = %at.workspace, item = %at, %error, "an answer is decided; the projector appends it");
        }
        Answered { item, is_appended: finished.is_ok(), is_repeat }
    }

    /// Appends the events of an answered item, if they are not there, in the name of its reviewer.
    async fn finish_answer(&self, at: &ReviewItemId, item: &ReviewItem) -> Result<()> {
        let Some(answer) = &item.answer else { return Ok(()) };
        if !answer.is_appended {
            let events = events_of(at, item, answer)
                .map_err(|refused| Error::corrupt(format!("the answer to {at} is no event: {refused}")))?;
            let (lanes, kept) = self.kept_of(&at.workspace, (events.kind, events.columns)).await?;
            if kept.rows() > 0 {
                let author = Author { principal: answer.reviewer.clone(), ..Author::clone(&current()) };
                let author = author.from_source(&format!("job=review; run={}", at.review))?;
                let appending = self.appender.append_answer(at, &lanes, kept, &answer.after);
                by(Arc::new(author), appending).await?;
            }
        }
        self.catalog().note_appended(at, item).await
    }

    /// Appends the answers of a workspace that were decided and not appended. Returns their number.
    ///
    /// # Errors
    /// Errors of the table; `Conflict`, when the workspace is being deleted. It may be called again.
    pub async fn finish_answers(&self, workspace: &Id) -> Result<u64> {
        let owed = self.catalog().owed_answers(workspace, self.clock().now()).await?;
        for (at, item) in &owed {
            self.finish_answer(at, item).await?;
        }
        Ok(owed.len() as u64)
    }
}
