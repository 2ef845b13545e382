//! The request for a page of an audit log.

use event::{Day, Error, Result, Timestamp, Window};

use crate::{row_filter::is_newest, window::week_until};

/// Number of rows of a page if the request has no limit.
pub(crate) const DEFAULT_ROWS: usize = 1_000;

/// Maximum number of rows of a page.
pub(crate) const MAX_ROWS: usize = 10_000;

/// The parameters of a request, as text from the command line or a URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditParams<'a> {
    /// Only actions of this principal.
    pub principal: Option<&'a str>,
    /// Only this action, or all actions whose names begin with it and a dot.
    pub action: Option<&'a str>,
    /// The first day.
    pub from: Option<&'a str>,
    /// The last day.
    pub to: Option<&'a str>,
    /// Maximum number of rows.
    pub limit: Option<&'a str>,
    /// The end of an earlier page, after which this page begins.
    pub after: Option<&'a str>,
    /// Order: the oldest or the newest first.
    pub order: Option<&'a str>,
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
    /// Parses the parameters of a request received at `now`.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(words: &AuditParams<'_>, now: Timestamp) -> Result<Self> {
        let limit = words.limit.map_or(Ok(DEFAULT_ROWS), |text| {
            let limit = text.parse().ok().filter(|limit| (1..=MAX_ROWS).contains(limit));
            limit.ok_or_else(|| Error::invalid(format!("limit is 1 to {MAX_ROWS}, not `{text}`")))
        })?;
        let named = |name: &str, text: Option<&str>| match text {
            Some("") => Err(Error::invalid(format!("{name} is empty; leave it out"))),
            text => Ok(text.map(str::to_owned)),
        };
        Ok(Self {
            window: week_until(words.from, words.to, now)?,
            limit,
            after: words.after.map(parse_place).transpose()?,
            newest: is_newest(words.order)?,
            tells_events: true,
            principal: named("principal", words.principal)?,
            action: named("action", words.action)?,
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
        let parse = |words: AuditParams<'_>| AuditRequest::parse(&words, now);
        let plain = parse(AuditParams::default()).unwrap();
        assert_eq!((plain.window.from().to_string(), plain.limit), ("2026-06-04".into(), DEFAULT_ROWS));
        let action =
            AuditParams { action: Some("token"), principal: Some("user:ann"), ..AuditParams::default() };
        let asked = parse(action).unwrap();
        assert!(asked.wants("token.create") && asked.wants("token") && !asked.wants("tokens.create"));
        assert!(asked.is_of(Some("user:ann")) && !asked.is_of(None) && plain.is_of(None));
        let place = (1_781_049_600_000_000, "c0000000012".to_owned());
        let text = place_text(&place);
        let after = parse(AuditParams { after: Some(&text), ..AuditParams::default() }).unwrap();
        assert_eq!(after.after, Some(place));
        for wrong in [
            AuditParams { from: Some("yesterday"), ..AuditParams::default() },
            AuditParams { from: Some("2026-06-11"), ..AuditParams::default() },
            AuditParams { limit: Some("0"), ..AuditParams::default() },
            AuditParams { limit: Some("10001"), ..AuditParams::default() },
            AuditParams { after: Some("c1"), ..AuditParams::default() },
            AuditParams { after: Some("1-a/b"), ..AuditParams::default() },
            AuditParams { principal: Some(""), ..AuditParams::default() },
            AuditParams { order: Some("last"), ..AuditParams::default() },
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
