//! Creation of reviews: predictions are read day by day, joined with their outcomes, and picked. See [`catalog::Review`].

mod pick;
mod ranking;

pub use ranking::ArenaRanking;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{
    ArenaPair, MAX_REVIEW_WINDOW_DAYS, PickedItems, PredictionSaid, REVIEW_DAYS, Review, ReviewItem,
    ReviewSpec, Workspace,
};
use event::{
    Day, Definition, Error, Id, Result, Task, Timestamp,
    fields::{SCORE_PREFIX, TAG_PREFIX},
    id::check_name,
    task::POSITIVE_SCORE,
};
use log::{audit::current, key::ReviewItemId};
use polars::prelude::{DataFrame, Float64Chunked, StringChunked};

use self::pick::{Candidate, Picker, Said, Taken};
use crate::{
    Query,
    frame::failed,
    request::{Dataset, Params, Request},
    work,
};

/// Maximum number of releases whose predictions an item stores, by name.
const MAX_SAID: usize = 100;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Context for reading the predictions of a day: definitions and models by release, and the specification of the review.
struct OfDay {
    definitions: BTreeMap<String, Definition>,
    models: BTreeMap<String, String>,
    spec: ReviewSpec,
}

impl OfDay {
    /// Returns the label that a score of a binary release means: the positive label, or the other one if the review names two.
    fn meant(&self, release: &str, score: f64) -> Option<&str> {
        let definition = self.definitions.get(release)?;
        let Task::Binary { positive_label } = &definition.task else { return None };
        match &self.spec.labels[..] {
            _ if score >= definition.threshold => Some(positive_label),
            [one, other] if one == positive_label => Some(other),
            [other, one] if one == positive_label => Some(other),
            _ => None,
        }
    }
}

/// The present content of an arena.
#[derive(Default)]
struct ArenaContent {
    pairs: Vec<ArenaPair>,
    taken: Taken,
    /// True if its pairs get nothing more.
    only_new: bool,
}

impl Query {
    /// Creates a review: picks its items and stores them. Returns it with warnings of unread data. A repeated request with equal
    /// parameters returns the existing review.
    ///
    /// # Errors
    /// `Invalid`, if it asks for what a review cannot be, names a release that is not there, or nothing is to be judged; `NotFound`, if there
    /// is no such model;
    /// `Conflict`, if the name is taken by another review; errors of [`Query::run`] and of the table.
    pub async fn create_review(
        &self,
        workspace: &Workspace,
        name: &str,
        spec: ReviewSpec,
    ) -> Result<(Review, Vec<String>)> {
        check_name(name)?;
        let spec = spec.checked()?;
        workspace.check_open()?;
        let (catalog, id) = (self.catalog(), workspace.id());
        if let Some(known) = catalog.review_again(id, name, &spec).await? {
            return Ok((known, Vec::new()));
        }
        let models = catalog.definitions(id).await?.models();
        if let Some(model) = spec.model.as_ref().filter(|model| !models.values().any(|known| known == *model))
        {
            return Err(Error::not_found(format!(
                "there is no model `{model}` with a release in this workspace"
            )));
        }
        self.check_releases(id, spec.releases.iter().chain(&spec.release)).await?;
        let now = self.now();
        let review = Review {
            id: Id::new(now),
            name: name.to_owned(),
            items: 0,
            created_at: now,
            created_by: current().principal.clone(),
            expires_at: i64::MAX,
            spec,
        };
        let (review, picked, warnings) = self.pick(id, review, ArenaContent::default()).await?;
        if review.items == 0 {
            return Err(Error::invalid(match (review.spec.is_arena(), review.spec.releases.is_empty()) {
                (true, true) => {
                    "no two live releases predicted the same in these days; `releases` names those that are not live"
                }
                (true, false) => {
                    "no two of the releases predicted the same in these days: one key at one instant"
                }
                (false, _) => {
                    "no prediction of these days is to be judged as the policy has it: they may have outcomes already, or lack what the policy looks at"
                }
            }));
        }
        Ok((catalog.create_review(id, review, picked).await?, warnings))
    }

    /// Picks more for an arena: for pairs of currently live releases, and from days up to `to`, by default the last day that it
    /// was made of. Returns the arena and warnings of unread data. Earlier picks stay.
    ///
    /// # Errors
    /// `NotFound`, if there is no such arena; `Invalid`, if the review is no arena or `to` is before its first day; `TooLarge`,
    /// if there are too many pairs; `Conflict`, if another request does this at the moment; errors of [`Query::run`] and of the
    /// table.
    pub async fn refresh_arena(
        &self,
        workspace: &Workspace,
        name: &str,
        to: Option<Day>,
    ) -> Result<(Review, Vec<String>)> {
        self.pick_more(workspace, (name, to), false).await
    }

    /// Picks for those pairs of live releases that an arena lacks, and for no others.
    ///
    /// # Errors
    /// Errors of [`Query::refresh_arena`].
    pub async fn pick_missing_pairs(&self, workspace: &Workspace, name: &str) -> Result<()> {
        self.pick_more(workspace, (name, None), true).await.map(drop)
    }

    async fn pick_more(
        &self,
        workspace: &Workspace,
        (name, to): (&str, Option<Day>),
        only_new: bool,
    ) -> Result<(Review, Vec<String>)> {
        workspace.check_open()?;
        let (catalog, id) = (self.catalog(), workspace.id());
        let review = catalog.review(id, name).await?;
        review.check_arena()?;
        let (first, to) = (review.spec.from, to.unwrap_or(review.spec.to));
        if to < first {
            return Err(Error::invalid(format!("to: the arena is of days from {first} on")));
        }
        let days = MAX_REVIEW_WINDOW_DAYS as i64 - 1;
        let from = to.start().plus_seconds(-days * DAY_SECONDS).day().max(first);
        let pairs = catalog.arena_pairs(id, &review.id).await?;
        let items = catalog.review_items(id, &review.id).await?;
        let taken = items.into_iter().map(|item| {
            let releases: BTreeSet<String> = item.said.into_iter().map(|said| said.release).collect();
            (releases.into_iter().collect(), item.predicted_at.micros(), item.key)
        });
        let known = ArenaContent { pairs, taken: taken.collect(), only_new };
        // The days that are read are no part of what the arena was made of.
        let read = Review { spec: ReviewSpec { from, to, ..review.spec.clone() }, ..review.clone() };
        let (read, picked, warnings) = self.pick(id, read, known).await?;
        if picked.is_empty() {
            return Ok((review, warnings));
        }
        catalog.add_review_items(id, &read, picked).await?;
        Ok((catalog.note_items(id, &review).await?, warnings))
    }

    /// Picks the items of a review, or more for an arena; returns it with their number and the end of their time, and warnings of
    /// unread data.
    async fn pick(
        &self,
        workspace: &Id,
        review: Review,
        known: ArenaContent,
    ) -> Result<(Review, Vec<PickedItems>, Vec<String>)> {
        let retention = self.catalog().retention(workspace).await?;
        let latest = self.now().plus_seconds(REVIEW_DAYS * DAY_SECONDS);
        let expiry = |day| {
            let at = retention.expires_at(day).map_or(latest, |at| at.min(latest));
            at.micros().div_euclid(1_000_000)
        };
        let review = Review { expires_at: review.expires_at.min(expiry(review.spec.to)), ..review };
        let mut releases = BTreeSet::new();
        if review.spec.is_arena() {
            releases = self.catalog().compared_releases(workspace, &review.spec).await?;
            if releases.len() < 2 {
                return Ok((review, Vec::new(), Vec::new()));
            }
        }
        let rooms =
            known.pairs.iter().map(|pair| (pair, if known.only_new { None } else { Some(pair.items) }));
        let picker = Picker::new(&review.spec, releases, (rooms, known.taken));
        let (picker, warnings) = self.fill(workspace, &review.spec, picker).await?;
        let item = |candidate: &Candidate, copy| {
            let until = expiry(candidate.predicted_at.day());
            let until = if review.spec.is_arena() { until.min(review.expires_at) } else { until };
            item(workspace, &review, (candidate, copy), until)
        };
        let mut picked = Vec::new();
        let mut next = u32::try_from(known.pairs.len()).unwrap_or(u32::MAX);
        for (group, candidates) in picker.finish() {
            let pair =
                <[String; 2]>::try_from(group).ok().filter(|_| review.spec.is_arena()).map(|releases| {
                    let known = known.pairs.iter().find(|pair| pair.releases == releases).cloned();
                    known.unwrap_or_else(|| {
                        next += 1;
                        ArenaPair::new(next - 1, releases, review.expires_at)
                    })
                });
            let copies =
                (0..review.spec.judges).flat_map(|copy| candidates.iter().map(move |one| (one, copy)));
            picked.push((pair, copies.map(|(candidate, copy)| item(candidate, copy)).collect::<Vec<_>>()));
        }
        let items = picked.iter().map(|(_, items)| items.len()).sum::<usize>();
        Ok((Review { items: u32::try_from(items).unwrap_or(u32::MAX), ..review }, picked, warnings))
    }

    /// Gives the predictions of the days of a review to its picker; returns it with warnings of unread data.
    async fn fill(
        &self,
        workspace: &Id,
        spec: &ReviewSpec,
        mut picker: Picker,
    ) -> Result<(Picker, Vec<String>)> {
        let definitions = self.catalog().definitions(workspace).await?;
        let mut warnings = Vec::new();
        for day in spec.window().days() {
            let text = day.to_string();
            let words =
                Params { from: &text, to: &text, release: spec.release.as_deref(), ..Params::default() };
            let answer = self.run(workspace, &Request::parse(Dataset::Joined, &words)?).await?;
            for warning in &answer.warnings {
                if !warnings.contains(warning) {
                    warnings.push(warning.clone());
                }
            }
            let (answer, models) = (Arc::new(answer), definitions.models());
            let of_day = OfDay { definitions: definitions.of(day), models, spec: spec.clone() };
            let picking = work::run(move || {
                for candidate in candidates(&answer.frame, &of_day)? {
                    picker.add(candidate)?;
                }
                Ok::<_, Error>(picker)
            });
            picker = picking
                .await
                .map_err(|error| Error::unavailable("picking was interrupted").because(error))??;
        }
        Ok((picker, warnings))
    }
}

/// Builds the item of a picked candidate; in an arena the seed decides for each copy which release is on the left.
fn item(
    workspace: &Id,
    review: &Review,
    (candidate, copy): (&Candidate, u32),
    expires_at: i64,
) -> ReviewItem {
    let spec = &review.spec;
    let mut said: Vec<PredictionSaid> = candidate.said.iter().map(|said| said.said.clone()).collect();
    let mut tags = BTreeMap::new();
    if spec.is_arena() {
        if candidate.is_turned(spec.seed, copy) {
            said.reverse();
        }
        let is_shown = |name: &String| spec.tags.is_empty() || spec.tags.contains(name);
        said.iter_mut().for_each(|said| said.tags.retain(|name, _| is_shown(name)));
        let shared = |name: &String, text: &String| said.iter().all(|said| said.tags.get(name) == Some(text));
        let first = said.first().map(|said| said.tags.clone()).unwrap_or_default();
        tags = first.into_iter().filter(|(name, text)| shared(name, text)).collect();
        said.iter_mut().for_each(|said| said.tags.retain(|name, _| !tags.contains_key(name)));
    } else {
        said.sort_by(|one, other| one.release.cmp(&other.release));
        said.truncate(MAX_SAID);
        for said in &mut said {
            for (name, text) in std::mem::take(&mut said.tags) {
                tags.entry(name).or_insert(text);
            }
        }
    }
    let id = ReviewItemId { workspace: workspace.clone(), review: review.id.clone(), number: 0 };
    ReviewItem {
        ver: 1,
        id,
        review: review.name.clone(),
        key: candidate.key.clone(),
        predicted_at: candidate.predicted_at,
        is_pair: spec.is_arena(),
        said,
        tags,
        lease: None,
        answer: None,
        expires_at,
    }
}

/// Returns the predictions of a frame, grouped by key and instant.
fn candidates(frame: &DataFrame, of_day: &OfDay) -> Result<Vec<Candidate>> {
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
        if of_day.spec.model.as_ref().is_some_and(|model| of_day.models.get(release) != Some(model)) {
            continue;
        }
        let predicted_at =
            Timestamp::from_micros(at).ok_or_else(|| Error::corrupt("a prediction has no time"))?;
        let candidate = found.entry((at, key)).or_insert_with(|| Candidate::new(key, predicted_at));
        candidate.is_judged |= observed.get(row).is_some();
        let of_classes = scores.iter().filter_map(|(class, column)| Some((*class, column.get(row)?)));
        let own = (labels.get(row), score.get(row), value.get(row));
        let mut said = said((release, of_day), own, of_classes);
        let own = tags.iter().filter_map(|(tag, column)| Some((*tag, column.get(row)?)));
        said.said.tags = own.map(|(tag, text)| (tag.to_owned(), text.to_owned())).collect();
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
    let first = classes.first().copied();
    let meant = score.and_then(|score| of_day.meant(release, score)).or(first.map(|(class, _)| class));
    let margin = match (&classes[..], score) {
        ([(_, first), (_, second), ..], _) => Some(first - second),
        (_, Some(score)) => Some((score - threshold).abs()),
        _ => None,
    };
    let said = PredictionSaid {
        release: release.to_owned(),
        label: label.or(meant).map(str::to_owned),
        score: score.or(first.map(|(_, score)| score)),
        value,
        tags: BTreeMap::new(),
    };
    Said { said, is_positive: score.map(|score| score >= threshold), margin }
}
