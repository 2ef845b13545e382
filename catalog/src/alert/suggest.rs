//! Rules that the days of a reference suggest: what the columns of predictions are on usual days, as limits beyond which a day is to
//! be looked at.

use std::collections::BTreeMap;

use event::{Day, Error, Id, Kind, Result, Timestamp, Window};
use fold::{
    alert::fences,
    drift::{NULL_RATE, Profile, Sort},
};
use log::{
    active::of_active,
    key::{EntityId, EntityKind},
};
use table::query_all;

use super::{AlertRule, AlertRuleBody, MAX_ALERT_RULES, MAX_REFERENCE_DAYS};
use crate::{Catalog, profile_queries, profiles};

/// The statistic of drift that says which share of a day has names that the reference does not have.
const UNSEEN_RATE: &str = "unseen_rate";

/// Names of which more is new every day are no categories: no rule on them is suggested.
const MAX_USUAL_UNSEEN: f64 = 0.5;

/// How many significant digits limits have.
const DIGITS: i32 = 4;

/// Rules that the days of a reference suggest.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggested {
    /// At most [`MAX_ALERT_RULES`]: on how many predictions there are, then on what columns lack, on new names, on extremes.
    pub rules: Vec<AlertRuleBody>,
    /// How many more there would be.
    pub left_out: usize,
    /// How many days of the reference have predictions.
    pub days: usize,
}

impl Catalog {
    /// Rules on the predictions of a workspace, or of a release, whose limits are the [`fences`] of the days of a reference: on
    /// how many there are, which share lacks a column, how many have names that are new, and how far numbers reach. On none of
    /// the days of the reference would one fire. It reads rollups, and writes nothing.
    ///
    /// # Errors
    /// `Invalid`, when the reference has more than [`MAX_REFERENCE_DAYS`] days; `NotFound`, when there is no such release; those of the table, and `Corrupt`.
    pub async fn suggest_alert_rules(
        &self,
        workspace: &Id,
        reference: Window,
        release: Option<&str>,
    ) -> Result<Suggested> {
        if reference.days().take(MAX_REFERENCE_DAYS + 1).count() > MAX_REFERENCE_DAYS {
            return Err(Error::invalid(format!("a reference has at most {MAX_REFERENCE_DAYS} days")));
        }
        if let Some(name) = release {
            let at = EntityId::Workspace(workspace.clone());
            let there = self.named(Some(&at), EntityKind::Release, name).await?;
            there
                .ok_or_else(|| Error::not_found(format!("there is no release `{name}` in this workspace")))?;
        }
        let read = |version| async move {
            let [rollups, features] = profile_queries(workspace, version, reference);
            let mut items = query_all(&*self.table, rollups).await?;
            items.extend(query_all(&*self.table, features).await?);
            profiles(&items, release)
        };
        let (_, mut days) = of_active(&*self.table, workspace, read).await?;
        days.retain(|_, day| day.predictions() > 0);
        let of_release = |body| AlertRuleBody { release: release.map(str::to_owned), ..body };
        let found: Vec<_> = suggested(&days, reference).into_iter().map(of_release).collect();
        let is_right = |body: &AlertRuleBody| AlertRule::of(body.clone(), Timestamp::default()).is_ok();
        let rules: Vec<_> =
            found.iter().filter(|body| is_right(body)).take(MAX_ALERT_RULES).cloned().collect();
        Ok(Suggested { left_out: found.len() - rules.len(), rules, days: days.len() })
    }
}

/// The rules that days with predictions suggest, in the order of their weight.
fn suggested(days: &BTreeMap<Day, Profile>, reference: Window) -> Vec<AlertRuleBody> {
    let columns = Profile::of(days.values()).columns();
    let of = |column: &str, statistic: &str| {
        let known = days.values().filter_map(|day| day.statistic(column, statistic).map(|(value, _)| value));
        fences(&known.collect::<Vec<_>>())
    };
    let mut rules = volume(days);
    for (column, _) in &columns {
        let most = of(column, NULL_RATE).map(|[_, most]| outward(most, true)).filter(|most| *most < 1.0);
        rules.extend(most.map(|most| on_column(column, NULL_RATE, [None, Some(most)])));
    }
    for (column, most) in unseen(days) {
        rules.push(AlertRuleBody {
            name: format!("{column}-{UNSEEN_RATE}"),
            drift: Some(column),
            statistic: Some(UNSEEN_RATE.to_owned()),
            reference: Some(reference.to_string()),
            above: Some(outward(most, true)),
            ..AlertRuleBody::default()
        });
    }
    for (column, _) in columns.iter().filter(|(_, sort)| *sort == Sort::Numbers) {
        let least = of(column, "min").map(|[least, _]| outward(least, false));
        rules.extend(least.map(|least| on_column(column, "min", [Some(least), None])));
        let most = of(column, "max").map(|[_, most]| outward(most, true));
        rules.extend(most.map(|most| on_column(column, "max", [None, Some(most)])));
    }
    rules
}

/// Rules on how many predictions there are.
fn volume(days: &BTreeMap<Day, Profile>) -> Vec<AlertRuleBody> {
    let counts: Vec<f64> = days.values().map(|day| day.predictions() as f64).collect();
    let Some([fewest, most]) = fences(&counts) else { return Vec::new() };
    let count = |name: &str, [below, above]: [Option<f64>; 2]| AlertRuleBody {
        name: format!("{}-{name}", Kind::Predictions.name()),
        count: Some(Kind::Predictions.name().to_owned()),
        below,
        above,
        ..AlertRuleBody::default()
    };
    // Where even a usual day may have hardly any, a day without any is still none.
    let (fewest, most) = (outward(fewest, false).floor().max(1.0), outward(most, true).ceil());
    vec![count("few", [Some(fewest), None]), count("many", [None, Some(most)])]
}

fn on_column(column: &str, statistic: &str, [below, above]: [Option<f64>; 2]) -> AlertRuleBody {
    AlertRuleBody {
        name: format!("{column}-{statistic}"),
        column: Some(column.to_owned()),
        statistic: Some(statistic.to_owned()),
        below,
        above,
        ..AlertRuleBody::default()
    }
}

/// The most that usually is new of each column of names: of the days of the second half, which share has names that those of the
/// first half do not have.
fn unseen(days: &BTreeMap<Day, Profile>) -> Vec<(String, f64)> {
    let before = Profile::of(days.values().take(days.len() / 2));
    let mut rates = BTreeMap::<String, Vec<f64>>::new();
    for day in days.values().skip(days.len() / 2) {
        for compared in before.compared(day) {
            let rate = compared.drift.unseen_rate;
            rate.into_iter().for_each(|rate| rates.entry(compared.column.clone()).or_default().push(rate));
        }
    }
    let most = rates.into_iter().filter_map(|(column, rates)| Some((column, fences(&rates)?[1])));
    most.filter(|(_, most)| *most < MAX_USUAL_UNSEEN).collect()
}

/// A number with few digits that is not less (`up`), or not greater.
fn outward(number: f64, up: bool) -> f64 {
    if number == 0.0 {
        return number;
    }
    let places = DIGITS - 1 - number.abs().log10().floor() as i32;
    let scale = 10f64.powi(places);
    let scaled = number * scale;
    if !scale.is_normal() || !scaled.is_finite() {
        return number;
    }
    let whole = if up { scaled.ceil() } else { scaled.floor() };
    // A number that is nearly short may be beyond its short form.
    let next = if up { whole + 1.0 } else { whole - 1.0 };
    let short = [whole, next].into_iter().filter_map(|whole| format!("{whole}e{}", -places).parse().ok());
    let is_outward = |short: &f64| short.is_finite() && if up { *short >= number } else { *short <= number };
    short.into_iter().find(is_outward).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_have_four_digits_and_leave_in_what_is_usual() {
        let known = [
            (0.123_41, true, 0.1235),
            (0.123_41, false, 0.1234),
            (-0.123_41, true, -0.1234),
            (-0.123_41, false, -0.1235),
            (0.3, true, 0.3),
            (0.868_400_000_000_000_1, true, 0.8685),
            (0.0, true, 0.0),
            (123_456.0, true, 123_500.0),
            (1e-9, false, 1e-9),
            (5e-324, true, 5e-324),
            (f64::MAX, true, f64::MAX),
        ];
        for (number, up, limit) in known {
            assert_eq!(outward(number, up), limit, "{number}");
        }
    }

    proptest! {
        #[test]
        fn a_limit_never_cuts_off_its_number(number in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
            prop_assert!(outward(number, true) >= number && outward(number, false) <= number);
        }
    }
}
