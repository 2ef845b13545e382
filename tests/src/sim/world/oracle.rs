//! Conditions on every write of a projector, and on all of them once everything should be written. The list of everything
//! that was ever appended decides.

use std::collections::{BTreeMap, BTreeSet};

use catalog::DEFINED;
use event::{Columns, Kind, lane::LogPosition};
use fold::{
    Delta, LogSegment,
    key_filter::{KeyFilterPart, part_of},
    rollup::{Folding, Merge},
};
use log::{
    evaluated::{self, Found},
    key::{self, By, Counted, LogId, OfKeyFilter, Projection},
    key_filter::Head,
    projection::{Applied, Projected},
    scan,
};
use table::{Item, Key, item::Value};

use super::{State, whole};

/// A segment: its kind, its place, and its events.
type Folded<'a> = (Kind, LogPosition, &'a Columns);

impl State {
    /// Checks a write of a projector.
    pub(super) fn check(&self, before: Option<&Item>, item: &Item) -> std::result::Result<(), String> {
        if key::parse_lease(&item.key).is_some() {
            return check_lease(before, item);
        }
        if key::parse_active(&item.key).is_some() {
            let version = |item: &Item| whole(item, "version");
            return match before.is_some_and(|before| version(before) > version(item)) {
                true => Err("the active version moves back".into()),
                false => Ok(()),
            };
        }
        if let (Some((.., None)), Some(_)) = (key::parse_vintage(&item.key), before) {
            return Err("a vintage is written again".into());
        }
        if item.key.sk.starts_with("transition#") && before.is_some() {
            return Err("a transition is written again".into());
        }
        let is_settled = |item: &Item| item.optional_text("state") != Some("pending");
        if key::parse_delivery(&item.key).is_some() && before.is_some_and(is_settled) {
            return Err("a delivery that was settled is written again".into());
        }
        if let Some(of) = key::parse_key_filter(&item.key).filter(|of| of.digest.is_none()) {
            return self.check_key_filter(of, item);
        }
        if ["/rollup/v", "/feature/v"].iter().any(|partition| item.key.pk.contains(partition)) {
            return self.check_projection(before, item);
        }
        Ok(())
    }

    fn check_projection(&self, before: Option<&Item>, item: &Item) -> std::result::Result<(), String> {
        let told = |error: event::Error| error.to_string();
        if key::parse_slice(&item.key).is_some() {
            return Ok(());
        }
        let (day, projection) = key::parse_projection(&item.key).map_err(told)?;
        // It means something with the head that names it.
        if let Projection::EvaluationPart(..) = projection {
            return Ok(());
        }
        let applied = Projected::applied_of(item).map_err(told)?;
        let was = before.map_or(Ok(Applied::new()), Projected::applied_of).map_err(told)?;
        if was.iter().any(|(log, seq)| applied.get(log).is_none_or(|now| now < seq)) {
            return Err(format!("`applied` moves back: {was:?} to {applied:?}"));
        }
        let workspace = self.workspace().ok_or("nothing appended")?;
        let state = || Projected::from_item(item).map(|found| found.state).map_err(told);
        let (expected, found) = match projection {
            Projection::Rollup | Projection::Features => {
                let folding = match projection {
                    Projection::Features => Folding::Features,
                    _ => Folding::Rollup,
                };
                (self.fold(folding, &workspace, day, &applied)?.rollup.to_state(), state()?)
            }
            Projection::Breakdown(breakdown) => {
                let folding = match breakdown.by {
                    By::Feature => Folding::Features,
                    By::Release | By::Metric | By::Tag => Folding::Rollup,
                };
                let parts = self.fold(folding, &workspace, day, &applied)?.parts;
                (parts.get(&breakdown).ok_or("nothing of it was appended")?.to_state(), state()?)
            }
            Projection::Evaluation | Projection::EvaluationPart(..) => {
                let expected = self.evaluation(&workspace, day, &applied)?;
                let first = Key::new(item.key.pk.clone(), format!("{}/", item.key.sk));
                let from = |first: Key| self.items.range(first..).map(|(_, stored)| &stored.item);
                let parts = from(first).take_while(|part| part.key.sk.starts_with(&item.key.sk));
                let found = evaluated::assemble(parts.chain([item])).map_err(told)?;
                let first = format!("slice#{day}/");
                let slices = from(Key::new(item.key.pk.clone(), first.clone()));
                let slices = slices.take_while(|part| part.key.sk.starts_with(&first));
                let found = evaluated::with_slices(found, slices).map_err(told)?;
                // Parts of a replaced version are deleted first; its head goes next.
                if matches!(found, Found::Torn(_)) && self.is_left(&workspace, day, &item.key) {
                    return Ok(());
                }
                (expected, whole_state(found)?)
            }
        };
        match expected == found {
            true => Ok(()),
            false => Err(format!("it is not the fold of {applied:?}")),
        }
    }

    /// The active version of projections.
    fn active(&self, workspace: &event::Id) -> i64 {
        self.items.get(&key::active(workspace)).map_or(0, |stored| whole(&stored.item, "version"))
    }

    /// True if a key is that of an evaluation of a version of projections before the active one.
    fn is_left(&self, workspace: &event::Id, day: event::Day, head: &Key) -> bool {
        (1..self.active(workspace)).any(|version| key::evaluation(workspace, version as u32, day) == *head)
    }

    /// A filter of keys knows each key of the segments that it covers.
    fn check_key_filter(&self, of: OfKeyFilter, item: &Item) -> std::result::Result<(), String> {
        let told = |error: event::Error| error.to_string();
        let workspace = self.workspace().ok_or("nothing appended")?;
        let head = Head::from_item(item).map_err(told)?;
        // Where a segment cannot be read there is none.
        let known = head.applied.iter().filter_map(|(name, last)| {
            let log = scan::log_named(&workspace, of.day, name)?;
            Some(self.logs.get(&log)?.iter().take(*last as usize))
        });
        let segments: Vec<&Option<Columns>> = known.flatten().collect();
        // Parts of a replaced version are deleted first; its heads go next.
        if head.parts == 0 || i64::from(of.version) < self.active(&workspace) {
            return Ok(());
        }
        for columns in segments.into_iter().flatten() {
            let keys = columns.column("key").ok_or("events without keys")?;
            for key in (0..columns.rows).filter_map(|row| keys.text(row)) {
                let place = (head.digest, part_of(key, head.parts));
                let part = key::key_filter_part(&workspace, of.version, of.day, of.kind, place);
                let part = self.items.get(&part).ok_or("a part of the filter is missing")?;
                let part = part.item.bytes("data").map_err(told)?;
                let part = KeyFilterPart::from_bytes(part).map_err(|error| error.to_string())?;
                if !part.may_hold(key) {
                    return Err(format!("the filter does not know {key}"));
                }
            }
        }
        Ok(())
    }

    fn fold(
        &self,
        folding: Folding,
        workspace: &event::Id,
        day: event::Day,
        applied: &Applied,
    ) -> std::result::Result<Delta, String> {
        let mut fold = Delta::default();
        for (kind, place, columns) in self.prefix(workspace, day, applied)? {
            let segment = LogSegment { place, columns };
            fold.merge(&Delta::folded(folding, kind, segment).map_err(|error| error.to_string())?);
        }
        Ok(fold)
    }

    fn evaluation(
        &self,
        workspace: &event::Id,
        day: event::Day,
        applied: &Applied,
    ) -> std::result::Result<String, String> {
        let segments = self.prefix(workspace, day, applied)?;
        let of = |wanted: Kind| -> Vec<LogSegment<'_>> {
            let found = segments.iter().filter(|(kind, ..)| *kind == wanted);
            found.map(|(_, place, columns)| LogSegment { place: *place, columns }).collect()
        };
        fold::evaluate(&of(Kind::Predictions), &of(Kind::Outcomes), &self.judged_by(day, applied))
            .map(|evaluation| evaluation.to_state())
            .map_err(|error| error.to_string())
    }

    /// The segments up to `applied`, without those that were left out.
    fn prefix(
        &self,
        workspace: &event::Id,
        day: event::Day,
        applied: &Applied,
    ) -> std::result::Result<Vec<Folded<'_>>, String> {
        let mut prefix = Vec::new();
        for (name, last) in applied.iter().filter(|(name, _)| *name != DEFINED) {
            let log = scan::log_named(workspace, day, name).ok_or("`applied` names no log")?;
            let segments = self.logs.get(&log).map_or(&[][..], Vec::as_slice);
            if segments.len() < *last as usize {
                return Err(format!("{log} has {} segments, not {last}", segments.len()));
            }
            for (seq, segment) in (1..=*last).zip(segments) {
                match segment {
                    Some(columns) => prefix.push((log.kind, LogPosition::of(log.lane, seq), columns)),
                    // A segment that an operator left out is checked against the dead letters.
                    None if self.is_left_out(&log, seq) => {}
                    None => return Err(format!("segment {seq} of {log} cannot be decoded, but is folded")),
                }
            }
        }
        Ok(prefix)
    }

    fn is_left_out(&self, log: &LogId, seq: u64) -> bool {
        self.skipped.contains(&(log.clone(), seq))
    }

    /// Everything that the projections in use lack or have wrong, once all should be written.
    pub(in crate::sim) fn unfinished(&self) -> Vec<String> {
        let mut found = Vec::new();
        let Some(workspace) = self.workspace() else { return found };
        let active = self.items.get(&key::active(&workspace));
        let version = active.map_or(1, |active| whole(&active.item, "version") as u32);
        let mut counts = BTreeMap::<String, u64>::new();
        for (log, segments) in &self.logs {
            let is_stop =
                |(seq, segment): &(u64, &Option<Columns>)| segment.is_none() && !self.is_left_out(log, *seq);
            let stop = (1..).zip(segments).find(is_stop).map_or(segments.len() as u64 + 1, |(seq, _)| seq);
            let folded = segments.iter().take(stop as usize - 1).flatten();
            *counts.entry(log.kind.name().to_owned()).or_default() +=
                folded.map(|columns| columns.rows as u64).sum::<u64>();
            for (key, what) in [
                (key::rollup(&workspace, version, log.day), "rollup"),
                (key::evaluation(&workspace, version, log.day), "evaluation"),
                (key::features(&workspace, version, log.day), "breakdown by feature"),
            ] {
                let stored = self.items.get(&key).and_then(|stored| Projected::applied_of(&stored.item).ok());
                let applied = stored.and_then(|applied| applied.get(&log.name()).copied()).unwrap_or(0);
                let is_due = match what {
                    "rollup" => true,
                    "breakdown by feature" => {
                        log.kind == Kind::Predictions && self.has_features(log, version)
                    }
                    _ => log.kind != Kind::Releases && self.has_predictions(log, version),
                };
                if applied != stop - 1 && is_due {
                    found.push(format!("{log}: the {what} v{version} covers {applied} of {}", stop - 1));
                }
            }
            if stop <= segments.len() as u64
                && !self.items.contains_key(&key::dead_letter(log, version, stop))
            {
                found.push(format!("{log}: segment {stop} has no dead letter"));
            }
            found.extend(self.unrecorded(log, stop));
            if log.kind == Kind::Predictions && log.lane == 0 && self.has_predictions(log, version) {
                let evaluation = self.items.get(&key::evaluation(&workspace, version, log.day));
                let known = evaluation.and_then(|stored| Projected::applied_of(&stored.item).ok());
                found.extend(self.undefined(&workspace, log.day, &known.unwrap_or_default()));
            }
        }
        found.extend(self.not_live(&workspace));
        let letters = self.items.keys().filter(|key| key::parse_unwritten(key).is_some());
        found.extend(letters.map(|key| format!("{key}: a projection is not written")));
        for (kind, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let counted = self.counted(&workspace, &kind);
            if counted != count {
                found.push(format!("the counters count {counted} {kind}, not {count}"));
            }
        }
        found
    }

    /// Without predictions there is nothing to evaluate that anybody must find.
    fn has_predictions(&self, log: &LogId, version: u32) -> bool {
        let rollup = self.items.get(&key::rollup(&log.workspace, version, log.day));
        let applied = rollup.and_then(|stored| Projected::from_item(&stored.item).ok());
        applied.is_some_and(|stored| stored.applied.keys().any(|name| name.starts_with('p')))
    }

    /// True if a segment with features is folded of the day of a log.
    fn has_features(&self, log: &LogId, version: u32) -> bool {
        let rollup = self.items.get(&key::rollup(&log.workspace, version, log.day));
        let applied = rollup.and_then(|stored| Projected::applied_of(&stored.item).ok()).unwrap_or_default();
        let day = self.logs.iter().filter(|(of, _)| of.day == log.day && of.kind == Kind::Predictions);
        let folded = |(of, segments): (&LogId, &Vec<Option<Columns>>)| {
            let last = applied.get(&of.name()).copied().unwrap_or(0) as usize;
            let mut columns = segments.iter().take(last).flatten().flat_map(|segment| &segment.columns);
            columns.any(|column| of.kind.sketched(&column.name).is_some())
        };
        day.into_iter().any(folded)
    }

    fn counted(&self, workspace: &event::Id, kind: &str) -> u64 {
        let months: BTreeSet<String> = self.logs.keys().map(|log| log.day.month()).collect();
        let mut sum = 0;
        for month in months {
            let Some(stored) = self.items.get(&key::counter(workspace, &Counted::Workspace, &month)) else {
                continue;
            };
            for day in stored.item.map("days").into_iter().flat_map(BTreeMap::values) {
                if let Value::M(kinds) = day
                    && let Some(Value::N(count)) = kinds.get(kind)
                {
                    sum += count.as_i64().unwrap_or(0) as u64;
                }
            }
        }
        sum
    }
}

/// The text that an evaluation would have if it stood in one item.
fn whole_state(found: Found) -> std::result::Result<String, String> {
    let Found::Whole(_, states) = found else { return Err("a part of the evaluation is missing".into()) };
    let whole = fold::Evaluation::from_states(&states).map_err(|error| error.to_string())?;
    Ok(whole.to_state())
}

fn check_lease(before: Option<&Item>, item: &Item) -> std::result::Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    let (was, is) = (whole(before, "epoch"), whole(item, "epoch"));
    if is < was {
        return Err(format!("the epoch of a lease moves back from {was} to {is}"));
    }
    let checkpoint = |item: &Item| -> i64 {
        let text = item.optional_text("checkpoint").and_then(|text| text.strip_prefix("after:"));
        text.and_then(|text| text.parse().ok()).unwrap_or(-1)
    };
    if is == was && checkpoint(item) < checkpoint(before) {
        let (from, to) = (checkpoint(before), checkpoint(item));
        return Err(format!("the checkpoint moves back from {from} to {to} within epoch {is}"));
    }
    Ok(())
}
