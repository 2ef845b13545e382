//! Creation of reviews: predictions are read day by day, joined with their outcomes, and picked. See [`catalog::Review`].

mod arena;
mod pairs;
mod pick;
mod ranking;

pub use ranking::ArenaRanking;

use std::{collections::BTreeMap, sync::Arc};

use catalog::{Picked, PredictionSaid, REVIEW_DAYS, Retention, Review, ReviewItem, ReviewSpec, Workspace};
use event::{
    Day, Definition, Error, Id, Result, Task, Timestamp, Window,
    fields::{SCORE_PREFIX, TAG_PREFIX},
    id::check_name,
    task::POSITIVE_SCORE,
};
use log::audit::current;
use polars::prelude::{DataFrame, Float64Chunked, StringChunked};

use self::{
    arena::Known,
    pick::{Candidate, Picker, Said},
};
use crate::{
    Query,
    frame::failed,
    request::{Request, What, Words},
    work,
};

/// Maximum number of releases whose predictions an item stores, by name.
const MAX_SAID: usize = 100;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Context for reading the predictions of a day: definitions and models by release, and the labels of the review.
#[derive(Debug, Default)]
struct OfDay {
    definitions: BTreeMap<String, Definition>,
    models: BTreeMap<String, String>,
    labels: Vec<String>,
}

impl OfDay {
    /// Returns the label that a score of a binary release means: the positive label, or the other one if the review names two.
    fn meant(&self, release: &str, score: f64) -> Option<&str> {
        let definition = self.definitions.get(release)?;
        let Task::Binary { positive_label } = &definition.task else { return None };
        match score >= definition.threshold {
            true => Some(positive_label),
            false => match &self.labels[..] {
                [one, other] if one == positive_label => Some(other),
                [other, one] if one == positive_label => Some(other),
                _ => None,
            },
        }
    }
}

impl Query {
    /// Creates a review: picks its items and stores them. Returns it with warnings of unread data. A repeated request with equal
    /// parameters returns the existing review.
    ///
    /// # Errors
    /// `Invalid`, if it asks for what a review cannot be, or nothing is to be judged; `NotFound`, if there is no such model;
    /// `Conflict`, if the name is taken by another review; errors of [`Query::run`] and of the table.
    pub async fn create_review(
        &self,
        workspace: &Workspace,
        name: &str,
        spec: ReviewSpec,
    ) -> Result<(Review, Vec<String>)> {
        check_name(name)?;
        spec.check()?;
        workspace.check_open()?;
        let catalog = self.catalog();
        if let Some(known) = catalog.review_again(workspace.id(), name, &spec).await? {
            return Ok((known, Vec::new()));
        }
        let models = catalog.definitions(workspace.id()).await?.models();
        if let Some(model) = spec.model.as_ref().filter(|model| !models.values().any(|known| known == *model))
        {
            return Err(Error::not_found(format!(
                "there is no model `{model}` with a release in this workspace"
            )));
        }
        let expiry = self.expiry(workspace.id()).await?;
        let (items, pairs, warnings) = match &spec.arena {
            Some(_) => {
                let known = Known::nothing(seconds(expiry.of(spec.window.to())));
                let (pairs, warnings) =
                    self.picked_pairs(workspace.id(), (name, &spec, spec.window), (known, &expiry)).await?;
                (Vec::new(), pairs, warnings)
            }
            None => {
                let (picker, warnings) =
                    self.picked(workspace.id(), (&spec, spec.window), Picker::new(&spec)).await?;
                let picked = picker.finish().into_iter().map(|picked| item(name, picked, &expiry));
                (picked.collect(), Vec::new(), warnings)
            }
        };
        let count = items.len() + pairs.iter().map(|(_, items)| items.len()).sum::<usize>();
        if count == 0 {
            return Err(Error::invalid(nothing_picked(&spec)));
        }
        let now = self.now();
        let picked = if spec.arena.is_some() { Picked::Pairs(&pairs) } else { Picked::Items(&items) };
        let review = Review {
            id: Id::new(now),
            name: name.to_owned(),
            items: u32::try_from(count).unwrap_or(u32::MAX),
            created_at: now,
            created_by: current().principal.clone(),
            expires_at: seconds(expiry.of(spec.window.to())),
            spec,
        };
        Ok((catalog.create_review(workspace.id(), review, picked).await?, warnings))
    }

    async fn expiry(&self, workspace: &Id) -> Result<Expiry> {
        let latest = self.now().plus_seconds(REVIEW_DAYS * DAY_SECONDS);
        Ok(Expiry { retention: self.catalog().retention(workspace).await?, latest })
    }

    /// Gives the predictions of a window to the picker; returns it with warnings of unread data.
    async fn picked<P: Picks>(
        &self,
        workspace: &Id,
        (spec, window): (&ReviewSpec, Window),
        mut picker: P,
    ) -> Result<(P, Vec<String>)> {
        let definitions = self.catalog().definitions(workspace).await?;
        let models = definitions.models();
        let mut warnings = Vec::new();
        for day in window.days() {
            let (models, labels) = (models.clone(), spec.labels.clone());
            let of_day = OfDay { definitions: definitions.of(day), models, labels };
            let (picked, more) = self.picked_of(workspace, day, (picker, of_day, spec)).await?;
            picker = picked;
            warnings
                .extend(more.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
        }
        Ok((picker, warnings))
    }

    /// Gives the predictions of a day to the picker; returns it with warnings of unread data.
    async fn picked_of<P: Picks>(
        &self,
        workspace: &Id,
        day: Day,
        (mut picker, of_day, spec): (P, OfDay, &ReviewSpec),
    ) -> Result<(P, Vec<String>)> {
        let text = day.to_string();
        let words = Words { from: &text, to: &text, release: spec.release.as_deref(), ..Words::default() };
        let answer = self.run(workspace, &Request::parse(What::Joined, &words)?).await?;
        let warnings = answer.warnings.clone();
        let (answer, model) = (Arc::new(answer), spec.model.clone());
        let picking = work::run(move || {
            for candidate in candidates(&answer.frame, &of_day, model.as_deref())? {
                picker.add(candidate)?;
            }
            Ok::<_, Error>(picker)
        });
        let picker =
            picking.await.map_err(|error| Error::unavailable("picking was interrupted").because(error))??;
        Ok((picker, warnings))
    }
}

/// The expiry of items.
struct Expiry {
    retention: Retention,
    latest: Timestamp,
}

impl Expiry {
    /// Returns the expiry of items of a day's predictions.
    fn of(&self, day: Day) -> Timestamp {
        self.retention.expires_at(day).map_or(self.latest, |at| at.min(self.latest))
    }
}

/// A picker, given the predictions of a window, one key and instant after the other.
trait Picks: Send + 'static {
    /// Takes the predictions of one key and instant.
    fn add(&mut self, candidate: Candidate) -> Result<()>;
}

fn nothing_picked(spec: &ReviewSpec) -> &'static str {
    match &spec.arena {
        Some(arena) if arena.releases.is_empty() => {
            "no two live releases predicted the same in these days; `releases` names those that are not live"
        }
        Some(_) => "no two of the releases predicted the same in these days: one key at one instant",
        None => {
            "no prediction of these days is to be judged as the policy has it: they may have outcomes already, or lack what the policy looks at"
        }
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.micros().div_euclid(1_000_000)
}

/// Builds the item of a picked candidate.
fn item(review: &str, mut picked: Candidate, expiry: &Expiry) -> ReviewItem {
    picked.said.sort_by(|one, other| one.release.cmp(&other.release));
    let said = picked.said.into_iter().take(MAX_SAID).map(Said::stored);
    ReviewItem {
        ver: 1,
        review: review.to_owned(),
        key: picked.key,
        predicted_at: picked.predicted_at,
        said: said.collect(),
        tags: picked.tags,
        sides: None,
        lease: None,
        answer: None,
        expires_at: seconds(expiry.of(picked.predicted_at.day())),
    }
}

impl Said {
    /// Returns it in the form stored in an item.
    fn stored(self) -> PredictionSaid {
        let Self { release, label, score, value, .. } = self;
        PredictionSaid { release, label, score, value }
    }
}

/// Returns the predictions of a frame, grouped by key and instant.
fn candidates(frame: &DataFrame, of_day: &OfDay, model: Option<&str>) -> Result<Vec<Candidate>> {
    let text =
        |name: &str| -> Result<&StringChunked> { frame.column(name).map_err(failed)?.str().map_err(failed) };
    let float =
        |name: &str| -> Result<&Float64Chunked> { frame.column(name).map_err(failed)?.f64().map_err(failed) };
    let time = |name: &str| frame.column(name).map_err(failed)?.datetime().map_err(failed);
    let names: Vec<&str> = frame.get_column_names().into_iter().map(|name| name.as_str()).collect();
    let members =
        |prefix: &'static str| names.iter().filter_map(move |name| Some((*name, name.strip_prefix(prefix)?)));
    let tags: Vec<_> =
        members(TAG_PREFIX).map(|(name, tag)| Ok((tag, text(name)?))).collect::<Result<_>>()?;
    let scores: Vec<_> =
        members(SCORE_PREFIX).map(|(name, class)| Ok((class, float(name)?))).collect::<Result<_>>()?;
    let (keys, releases, labels) = (text("key")?, text("release")?, text("label")?);
    let (score, value) = (float("score")?, float("value")?);
    let (predicted, observed) = (time("predicted_at")?.physical(), time("observed_at")?.physical());
    let mut found = BTreeMap::<(i64, &str), Candidate>::new();
    for row in 0..frame.height() {
        let (Some(key), Some(release), Some(at)) = (keys.get(row), releases.get(row), predicted.get(row))
        else {
            continue;
        };
        if model.is_some_and(|model| of_day.models.get(release).is_none_or(|known| known != model)) {
            continue;
        }
        let predicted_at =
            Timestamp::from_micros(at).ok_or_else(|| Error::corrupt("a prediction has no time"))?;
        let candidate = found.entry((at, key)).or_insert_with(|| Candidate::new(key, predicted_at));
        candidate.is_judged |= observed.get(row).is_some();
        let of_classes = scores.iter().filter_map(|(class, column)| Some((*class, column.get(row)?)));
        let own = (labels.get(row), score.get(row), value.get(row));
        let mut said = said((release, of_day), own, of_classes);
        said.tags = tags
            .iter()
            .filter_map(|(tag, column)| Some(((*tag).to_owned(), column.get(row)?.to_owned())))
            .collect();
        for (tag, text) in &said.tags {
            candidate.tags.entry(tag.clone()).or_insert_with(|| text.clone());
        }
        candidate.said.push(said);
    }
    Ok(found.into_values().collect())
}

/// Builds the prediction of a release, with its certainty.
fn said<'a>(
    (release, of_day): (&str, &OfDay),
    (label, score, value): (Option<&str>, Option<f64>, Option<f64>),
    of_classes: impl Iterator<Item = (&'a str, f64)>,
) -> Said {
    let mut classes: Vec<(&str, f64)> = of_classes.collect();
    classes.sort_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
    let threshold = of_day.definitions.get(release).map_or(POSITIVE_SCORE, |definition| definition.threshold);
    let first = classes.first().map(|(class, _)| *class);
    let meant = score.and_then(|score| of_day.meant(release, score)).or(first);
    let margin = match (&classes[..], score) {
        ([(_, first), (_, second), ..], _) => Some(first - second),
        (_, Some(score)) => Some((score - threshold).abs()),
        _ => None,
    };
    Said {
        release: release.to_owned(),
        label: label.or(meant).map(str::to_owned),
        is_positive: score.map(|score| score >= threshold),
        score: score.or_else(|| classes.first().map(|(_, score)| *score)),
        value,
        tags: BTreeMap::new(),
        margin,
    }
}
