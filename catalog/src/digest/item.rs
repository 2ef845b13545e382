//! That a digest was told: what it said is written once, together with its delivery, and posted from there however often that is tried.

use event::{Day, Id, Result, Timestamp};
use log::key;
use table::Item;

use crate::{Delivery, Webhook, alert::time};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// For how long what a digest said is kept, in seconds. Its delivery is given up long before.
pub const DIGEST_SECONDS: i64 = 400 * 24 * 60 * 60;

/// How late a digest may be made, in seconds. What no projector made by then is left out.
const LATE_SECONDS: i64 = 6 * 60 * 60;

/// A digest that is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDigest {
    /// To which webhook.
    pub webhook: Webhook,
    /// The last day that it tells of: the last one (UTC) that was over when it was due.
    pub day: Day,
}

/// A page of a digest that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldDigest {
    /// The last day that it tells of.
    pub day: Day,
    /// The webhook, by name.
    pub webhook: String,
    /// Which page it is, from 1.
    pub page: u32,
    /// When it was made.
    pub at: Timestamp,
    /// The body that is posted.
    pub body: String,
}

impl DueDigest {
    /// The digest of a webhook that is due by an instant; `None`, when it is told none, or it was due too long ago.
    pub fn of(webhook: &Webhook, now: Timestamp) -> Option<Self> {
        let (seconds, zone) = (webhook.digest_seconds()?, webhook.zone());
        let today = zone.day(now);
        let mut times = [Some(today), today.before()].into_iter().flatten().map(|day| zone.at(day, seconds));
        let due = times.find(|due| *due <= now)?;
        (now < due.plus_seconds(LATE_SECONDS))
            .then_some(Self { webhook: webhook.clone(), day: due.day().before()? })
    }
}

impl ToldDigest {
    /// What tells it from all else that is posted of the workspace.
    pub fn id(&self) -> String {
        id(&self.webhook, self.day, self.page)
    }

    /// Its delivery, which is due at once.
    pub fn delivery(&self) -> Delivery {
        Delivery::of_digest(self)
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        Ok(Self {
            page: u32::try_from(item.int("page")?).map_err(|_| item.corrupt("`page` is none"))?,
            day: item.text("day")?.parse().map_err(|_| item.corrupt("`day` is none"))?,
            webhook: item.text("webhook")?.to_owned(),
            at: time(item, "at")?,
            body: item.text("body")?.to_owned(),
        })
    }

    /// Its item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        let expires_at = self.at.plus_seconds(DIGEST_SECONDS).micros().div_euclid(1_000_000);
        Item::new(key::digest(workspace, self.day, &self.webhook, self.page))
            .with("v", ITEM_VERSION)
            .with("day", self.day.to_string())
            .with("webhook", self.webhook.as_str())
            .with("page", i64::from(self.page))
            .with("at", self.at.micros())
            .with("body", self.body.as_str())
            .with("expires_at", expires_at)
    }
}

/// What tells a page of the digest of a webhook that ends with a day from all else that is posted of the workspace. No webhook has a name with
/// a slash.
pub(crate) fn id(webhook: &str, day: Day, page: u32) -> String {
    format!("digest.{day}.{webhook}/{page}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn its_item_is_stored_so() {
        let id = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let told = ToldDigest {
            day: "2013-06-01".parse().unwrap(),
            webhook: "mail".into(),
            page: 1,
            at: at("2013-06-02T07:00:30Z"),
            body: "{}".into(),
        };
        let stored = Item::new(key::digest(&id, told.day, "mail", 1))
            .with("v", 1)
            .with("day", "2013-06-01")
            .with("webhook", "mail")
            .with("page", 1)
            .with("at", 1_370_156_430_000_000)
            .with("body", "{}")
            .with("expires_at", 1_404_716_430);
        assert_eq!(told.to_item(&id), stored);
        assert_eq!(ToldDigest::from_item(&stored).unwrap(), told);
        let second = ToldDigest { page: 2, ..told.clone() };
        let item = second.to_item(&id);
        assert_eq!(item.key, key::digest(&id, told.day, "mail", 2));
        assert_eq!(ToldDigest::from_item(&item).unwrap(), second);
        assert_eq!(second.id(), "digest.2013-06-01.mail/2");
        assert!(ToldDigest::from_item(&stored.with("v", 2)).is_err());
        assert_eq!(told.id(), "digest.2013-06-01.mail/1");
    }

    #[test]
    fn digest_is_due_for_limited_time_from_hour() {
        let webhook =
            |digest: Option<&str>| Webhook { digest: digest.map(str::to_owned), ..Webhook::default() };
        let due =
            |digest, now: &str| DueDigest::of(&webhook(Some(digest)), at(now)).map(|due| due.day.to_string());
        let of = |day: &str| Some(day.to_owned());
        assert_eq!(due("07:00", "2013-06-02T06:59:59Z"), None, "that of the day before was due at seven");
        assert_eq!(due("07:00", "2013-06-02T07:00:00Z"), of("2013-06-01"));
        assert_eq!(due("07:00", "2013-06-02T12:59:59Z"), of("2013-06-01"));
        assert_eq!(due("07:00", "2013-06-02T13:00:00Z"), None);
        assert_eq!(due("00:00", "2013-06-02T00:00:00Z"), of("2013-06-01"));
        assert_eq!(due("23:30", "2013-06-03T02:00:00Z"), of("2013-06-01"), "begun before midnight");
        assert_eq!(due("23:30", "2013-06-02T23:30:00Z"), of("2013-06-01"));
        assert_eq!(DueDigest::of(&webhook(None), at("2013-06-02T07:00:00Z")), None);
    }

    /// Somebody looks every few minutes while clocks change: each day is told of once and in order, and none is left out but where
    /// clocks move over midnight by UTC.
    #[test]
    fn daily_digests_never_repeat_across_clock_changes() {
        let text = |text: &str| Some(text.to_owned());
        for (zone, digest, most_left_out) in [
            ("Europe/Berlin", "07:00", 0),
            ("Europe/Berlin", "02:30", 0),
            ("Europe/London", "00:30", 1),
            ("Pacific/Auckland", "23:59", 0),
            ("America/New_York", "20:00", 1),
            ("Pacific/Apia", "12:00", 1),
        ] {
            let webhook = Webhook { digest: text(digest), time_zone: text(zone), ..Webhook::default() };
            let (mut now, end) = (at("2013-01-01T00:00:00Z"), at("2014-01-01T00:00:00Z"));
            let mut told = Vec::new();
            while now < end {
                told.extend(DueDigest::of(&webhook, now).map(|due| due.day));
                now = now.plus_seconds(7 * 60);
            }
            assert!(told.is_sorted(), "{zone} {digest}");
            told.dedup();
            let (first, last) = (told[0].number(), told[told.len() - 1].number());
            let left_out = (last - first + 1) as usize - told.len();
            assert!(
                left_out <= most_left_out && told.len() > 360,
                "{zone} {digest}: {left_out} of {}",
                told.len()
            );
        }
    }

    #[test]
    fn digest_is_due_by_its_time_zone() {
        let due = |zone: &str, digest: &str, now: &str| {
            let text = |text: &str| Some(text.to_owned());
            let webhook = Webhook { digest: text(digest), time_zone: text(zone), ..Webhook::default() };
            DueDigest::of(&webhook, at(now)).map(|due| due.day.to_string())
        };
        let of = |day: &str| Some(day.to_owned());
        // Summer begins on 31 March in Berlin: seven is at six by UTC before, and at five after.
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-30T05:59:59Z"), None);
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-30T06:00:00Z"), of("2013-03-29"));
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-31T04:59:59Z"), None);
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-31T05:00:00Z"), of("2013-03-30"));
        // In Auckland it is the morning of the second while the first is not over by UTC.
        assert_eq!(due("Pacific/Auckland", "07:00", "2013-06-01T19:00:00Z"), of("2013-05-31"));
        assert_eq!(
            due("Pacific/Auckland", "07:00", "2013-06-02T00:59:59Z"),
            of("2013-05-31"),
            "begun before midnight"
        );
        assert_eq!(due("America/New_York", "21:00", "2013-06-02T01:00:00Z"), of("2013-06-01"));
        assert_eq!(due("America/New_York", "21:00", "2013-06-02T00:59:00Z"), None);
    }
}
