//! The request for a page of an audit log.

use event::{Day, Error, Result, Timestamp, Window};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{request::named, row_filter::is_newest, window::week_until};

/// Number of rows of a page if the request has no limit.
const DEFAULT_ROWS: usize = 1_000;

/// Maximum number of rows of a page.
const MAX_ROWS: usize = 10_000;

/// The parameters of a request.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct AuditParams {
    /// Changes of this workspace, by id or path; without it, of what belongs to no workspace.
    #[param(example = "credit/prod")]
    pub workspace: Option<String>,
    /// Only what this principal did, such as `user:ann`.
    #[param(min_length = 1)]
    pub principal: Option<String>,
    /// Only this action, such as `token.create`, or all of `token`.
    #[param(min_length = 1)]
    pub action: Option<String>,
    /// The first UTC day, of at most 3660 days; six days before the last one by default.
    #[param(value_type = Option<String>, format = Date)]
    pub from: Option<Day>,
    /// The last UTC day; today by default.
    #[param(value_type = Option<String>, format = Date)]
    pub to: Option<Day>,
    /// At most so many rows.
    #[param(minimum = 1, maximum = 10_000, default = 1_000)]
    pub limit: Option<usize>,
    /// Value of the header `Almanac-Next` of the page before.
    #[param(pattern = "^-?[0-9]+-[A-Za-z0-9.-]+$")]
    pub after: Option<String>,
    /// Order of the rows: the oldest first, or the newest.
    #[param(pattern = "^(oldest|newest)$", default = "oldest")]
    pub order: Option<String>,
    /// The format of the answer, which the operation describes.
    #[param(ignore)]
    pub format: Option<String>,
}

/// The place of a row among all rows: its time, and its name among the rows of that time.
pub(super) type Place = (i64, String);

/// A request for a page of an audit log.
#[derive(Clone, Debug)]
pub struct AuditRequest {
    pub(super) window: Window,
    pub(super) limit: usize,
    pub(super) after: Option<Place>,
    /// True if the newest rows come first.
    pub(super) newest: bool,
    /// True if the keys of retracted events and the reasons are shown.
    pub(super) tells_events: bool,
    principal: Option<String>,
    action: Option<String>,
}

impl AuditRequest {
    /// Makes the request of parameters received at `now`.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(params: &AuditParams, now: Timestamp) -> Result<Self> {
        let limit = params.limit.unwrap_or(DEFAULT_ROWS);
        if !(1..=MAX_ROWS).contains(&limit) {
            return Err(Error::invalid(format!("limit is 1 to {MAX_ROWS}, not `{limit}`")));
        }
        Ok(Self {
            window: week_until(params.from, params.to, now)?,
            limit,
            after: params.after.as_deref().map(parse_place).transpose()?,
            newest: is_newest(params.order.as_deref())?,
            tells_events: true,
            principal: named("principal", params.principal.as_deref())?,
            action: named("action", params.action.as_deref())?,
        })
    }

    /// Hides the keys and reasons of retracted events; the retractions themselves are still shown.
    #[must_use]
    pub fn without_events(self) -> Self {
        Self { tells_events: false, ..self }
    }

    /// Returns the days shown: changes by their own day, batches by the days of their events.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the earliest instant of the requested rows.
    pub(super) fn first(&self) -> Timestamp {
        let begin = self.window.from().start();
        self.begin().filter(|_| !self.newest).map_or(begin, |after| after.max(begin))
    }

    /// Returns the instant from which on no row is requested. `None`, if there is none.
    pub(super) fn end(&self) -> Option<Timestamp> {
        // Rows of the last instant may be left over, so it is included.
        let after =
            self.begin().filter(|_| self.newest).and_then(|at| Timestamp::from_micros(at.micros() + 1));
        after.into_iter().chain(self.window.to().next().map(Day::start)).min()
    }

    /// Returns the instant at which the page before ended.
    fn begin(&self) -> Option<Timestamp> {
        self.after.as_ref().and_then(|(at, _)| Timestamp::from_micros(*at))
    }

    /// Returns true if any action with this first word is requested.
    pub(super) fn may_want(&self, word: &str) -> bool {
        self.action.as_deref().is_none_or(|wanted| wanted.split('.').next() == Some(word))
    }

    /// Returns true if an action is requested.
    pub(super) fn wants(&self, action: &str) -> bool {
        self.action.as_deref().is_none_or(|wanted| {
            action.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Returns true if the actions of a principal are requested.
    pub(super) fn is_of(&self, principal: Option<&str>) -> bool {
        self.principal.is_none() || self.principal.as_deref() == principal
    }
}

/// Formats a place as text that fits into a URL.
pub(super) fn place_text((at, name): &Place) -> String {
    format!("{at}-{name}")
}

fn parse_place(text: &str) -> Result<Place> {
    let place = text.split_once('-').and_then(|(at, name)| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-".contains(letter);
        let at: i64 = at.parse().ok()?;
        (!name.is_empty() && name.chars().all(is_plain)).then(|| (at, name.to_owned()))
    });
    place.ok_or_else(|| Error::invalid("`after` is not what an earlier page ended with"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_refused() {
        let now = Timestamp::parse("2026-06-10T12:00:00Z").unwrap();
        let parse = |params: AuditParams| AuditRequest::parse(&params, now);
        let plain = parse(AuditParams::default()).unwrap();
        assert_eq!((plain.window.from().to_string(), plain.limit), ("2026-06-04".into(), DEFAULT_ROWS));
        let action = AuditParams {
            action: Some("token".into()),
            principal: Some("user:ann".into()),
            ..AuditParams::default()
        };
        let asked = parse(action).unwrap();
        assert!(asked.wants("token.create") && asked.wants("token") && !asked.wants("tokens.create"));
        assert!(asked.is_of(Some("user:ann")) && !asked.is_of(None) && plain.is_of(None));
        let place = (1_781_049_600_000_000, "c0000000012".to_owned());
        let text = place_text(&place);
        let after = parse(AuditParams { after: Some(text), ..AuditParams::default() }).unwrap();
        assert_eq!(after.after, Some(place));
        for wrong in [
            AuditParams { from: "2026-06-11".parse().ok(), ..AuditParams::default() },
            AuditParams { limit: Some(0), ..AuditParams::default() },
            AuditParams { limit: Some(10_001), ..AuditParams::default() },
            AuditParams { after: Some("c1".into()), ..AuditParams::default() },
            AuditParams { after: Some("1-a/b".into()), ..AuditParams::default() },
            AuditParams { principal: Some("".into()), ..AuditParams::default() },
            AuditParams { order: Some("last".into()), ..AuditParams::default() },
        ] {
            assert!(parse(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}
