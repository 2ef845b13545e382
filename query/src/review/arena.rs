//! Creation of arenas, and later additions as releases come and go. See [`catalog::ArenaSpec`].

use std::collections::{BTreeMap, BTreeSet};

use catalog::{
    ArenaPair, ArenaSpec, MAX_REVIEW_WINDOW_DAYS, Review, ReviewItem, ReviewSpec, Workspace, shared_tags,
};
use event::{Day, Error, Id, Result, Window};

use super::{
    DAY_SECONDS, Expiry,
    pairs::{Bout, PairPicker, Taken},
    pick::Said,
    seconds,
};
use crate::Query;

/// Pairs with the items added to them.
type Added = Vec<(ArenaPair, Vec<ReviewItem>)>;

/// The current content of an arena.
pub(super) struct Known {
    pairs: Vec<ArenaPair>,
    /// True if its pairs get nothing more.
    only_new: bool,
    taken: Taken,
    /// Time until which its items are kept, in seconds since 1970.
    expires_at: i64,
}

impl Known {
    /// Builds the content of a new arena.
    pub(super) fn nothing(expires_at: i64) -> Self {
        Self { pairs: Vec::new(), only_new: false, taken: BTreeSet::new(), expires_at }
    }
}

impl Query {
    /// Picks items for the pairs of an arena from the predictions of a window; returns them with warnings of unread data.
    pub(super) async fn picked_pairs(
        &self,
        workspace: &Id,
        (name, spec, window): (&str, &ReviewSpec, Window),
        (known, expiry): (Known, &Expiry),
    ) -> Result<(Added, Vec<String>)> {
        let Some(arena) = &spec.arena else { return Ok((Vec::new(), Vec::new())) };
        let releases = match arena.releases.is_empty() {
            true => self.catalog().live_releases(workspace, spec.model.as_deref()).await?,
            false => arena.releases.iter().cloned().collect(),
        };
        if releases.len() < 2 {
            return Ok((Vec::new(), Vec::new()));
        }
        let pairs = known.pairs.into_iter().map(|pair| (pair.releases.clone(), pair)).collect();
        let how = (spec.seed, spec.n, arena.judges);
        let picker = PairPicker::new(releases, how, (pairs, known.taken)).only_new(known.only_new);
        let (picker, warnings) = self.picked(workspace, (spec, window), picker).await?;
        let (picked, mut pairs) = picker.finish();
        let mut added = Vec::new();
        for (pair, bouts) in picked {
            let next = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
            let record = ArenaPair::new(next, pair.clone(), known.expires_at);
            let record = pairs.entry(pair).or_insert(record).clone();
            let copies = (0..arena.judges).flat_map(|copy| bouts.iter().map(move |bout| (copy, bout)));
            let items = copies.map(|(copy, bout)| {
                let until = seconds(expiry.of(bout.predicted_at.day())).min(known.expires_at);
                item(name, (bout, bout.is_turned(spec.seed, copy)), (arena, until))
            });
            added.push((record, items.collect()));
        }
        Ok((added, warnings))
    }

    /// Picks more for an arena: for pairs of currently live releases, and from days up to `to`, by default the last day that it
    /// was made of. Returns the arena and warnings of unread data. Earlier picks stay.
    ///
    /// # Errors
    /// `NotFound`, if there is no such arena; `Invalid`, if the review is no arena or `to` is before its first day; `TooLarge`,
    /// if there are too many pairs; `Conflict`, if somebody else does this at the moment; errors of [`Query::run`] and of the
    /// table.
    pub async fn refresh_arena(
        &self,
        workspace: &Workspace,
        name: &str,
        to: Option<Day>,
    ) -> Result<(Review, Vec<String>)> {
        self.more_of_arena(workspace, (name, to), false).await
    }

    /// Picks for those pairs of live releases that an arena lacks, and for no others.
    ///
    /// # Errors
    /// Errors of [`Query::refresh_arena`].
    pub async fn pick_missing_pairs(&self, workspace: &Workspace, name: &str) -> Result<()> {
        self.more_of_arena(workspace, (name, None), true).await.map(drop)
    }

    /// Picks more for an arena, or only for pairs that it lacks.
    async fn more_of_arena(
        &self,
        workspace: &Workspace,
        (name, to): (&str, Option<Day>),
        only_new: bool,
    ) -> Result<(Review, Vec<String>)> {
        workspace.check_open()?;
        let (catalog, id) = (self.catalog(), workspace.id());
        let review = catalog.review(id, name).await?;
        review.arena()?;
        let window = refreshed(review.spec.window, to)?;
        let pairs = catalog.arena_pairs(id, &review.id).await?;
        let items = catalog.review_items(id, &review.id).await?;
        let taken = items.into_iter().filter_map(|(_, item)| {
            let mut releases: Vec<String> = item.said.into_iter().map(|said| said.release).collect();
            releases.sort_unstable();
            Some((releases.try_into().ok()?, item.predicted_at.micros(), item.key))
        });
        let known = Known { pairs, only_new, taken: taken.collect(), expires_at: review.expires_at };
        let expiry = self.expiry(id).await?;
        let (added, warnings) = self.picked_pairs(id, (name, &review.spec, window), (known, &expiry)).await?;
        if added.is_empty() {
            return Ok((review, warnings));
        }
        catalog.add_to_pairs((id, &review.id), &added).await?;
        Ok((catalog.note_items(id, &review).await?, warnings))
    }
}

/// Returns the days that are read again: up to `to`, and no more than a review may have.
fn refreshed(made_of: Window, to: Option<Day>) -> Result<Window> {
    let to = to.unwrap_or(made_of.to());
    if to < made_of.from() {
        return Err(Error::invalid(format!("to: the arena is of days from {} on", made_of.from())));
    }
    let days = MAX_REVIEW_WINDOW_DAYS as i64 - 1;
    let first = to.start().plus_seconds(-days * DAY_SECONDS).day();
    Window::new(first.max(made_of.from()), to)
}

/// Builds the item of a bout; `is_turned`, which the seed decides, swaps the sides.
fn item(
    review: &str,
    (bout, is_turned): (&Bout, bool),
    (arena, expires_at): (&ArenaSpec, i64),
) -> ReviewItem {
    let [one, other] = &bout.said;
    let sides = if is_turned { [other, one] } else { [one, other] };
    let shown = |said: &Said| -> BTreeMap<String, String> {
        let is_shown = |name: &String| arena.tags.is_empty() || arena.tags.contains(name);
        said.tags
            .iter()
            .filter(|(name, _)| is_shown(name))
            .map(|(name, tag)| (name.clone(), tag.clone()))
            .collect()
    };
    let (tags, of_sides) = shared_tags(sides.map(shown));
    ReviewItem {
        ver: 1,
        review: review.to_owned(),
        key: bout.key.clone(),
        predicted_at: bout.predicted_at,
        said: sides.map(|said| said.clone().stored()).into(),
        tags,
        sides: Some(of_sides),
        lease: None,
        answer: None,
        expires_at,
    }
}
