//! Webhooks and deliveries to them: transitions of alert rules, and digests. A delivery is written together with its
//! transition or digest, and is in an index by due time until it is settled.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    time::Duration,
};

use event::{Day, Error, Id, Result, Timestamp, Zone, id::check_name};
use fold::alert::Transition;
use log::key;
use serde::{Deserialize, Serialize};
use serde_json::json;
use table::Item;
use utoipa::ToSchema;

use super::{RuleTransition, demand, minutes_of};

/// Version of the item of a delivery.
const ITEM_VERSION: i64 = 1;

/// Maximum bytes of the URL of a webhook.
const MAX_URL_BYTES: usize = 1_000;

/// Maximum letters of the name of a secret.
const MAX_SECRET_NAME: usize = 64;

/// Time for which a delivery is retried, in seconds.
const TRIED_FOR_SECONDS: i64 = 24 * 60 * 60;

/// Time between the first and the second try; each later wait is twice the one before.
const FIRST_WAIT: Duration = Duration::from_secs(20);

/// Maximum wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// Maximum bytes kept of the reason of a failed try.
const MAX_WHY_BYTES: usize = 300;

/// Format of the body of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFormat {
    /// JSON with all fields of the transition, for programs.
    #[default]
    Json,
    /// Text in the form of Slack's incoming webhooks, and of services compatible with them.
    Slack,
}

/// Webhook to which transitions and digests are posted, as people write it in TOML or JSON. [`Webhook::check`] checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Name, which no other webhook of the workspace has.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    pub name: String,
    /// Where it is.
    #[schema(max_length = 1000, pattern = "^https?://")]
    pub url: Option<String>,
    /// Or the name of the projector's secret that says where it is.
    #[schema(pattern = "^[a-z0-9_]{1,64}$")]
    pub url_from: Option<String>,
    /// Format of the body; json unless it is given.
    #[serde(default)]
    #[schema(inline)]
    pub format: WebhookFormat,
    /// The name of the projector's secret by which deliveries are signed.
    #[schema(pattern = "^[a-z0-9_]{1,64}$")]
    pub secret: Option<String>,
    /// At which time of each day a digest of the workspace is posted; none is unless it is given.
    #[schema(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    pub digest: Option<String>,
    /// The time zone of that time, such as `Europe/Berlin`; UTC unless it is given.
    pub time_zone: Option<String>,
}

/// Makes the body of a text for Slack, in which nothing is markup but `begin`.
pub(crate) fn slack(begin: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({ "text": format!("{begin}{text}") }).to_string()
}

impl Webhook {
    /// Body that reports a transition of a workspace, given its id and path.
    pub fn body(&self, workspace: &Id, path: &str, rule_transition: &RuleTransition) -> String {
        let RuleTransition { rule, text, at, .. } = rule_transition;
        let what = rule_transition.transition.name();
        if self.format == WebhookFormat::Json {
            let mut data = json!(rule_transition);
            data["workspace"] = workspace.to_string().into();
            data["path"] = path.into();
            return json!({ "type": format!("alert.{what}"), "timestamp": at, "data": data }).to_string();
        }
        let sign = if rule_transition.transition == Transition::Fires {
            "rotating_light"
        } else {
            "white_check_mark"
        };
        slack(&format!(":{sign}: *{rule}* {what} in {path}: "), text)
    }

    /// Checks the webhook. Only the projector knows if its secrets exist.
    ///
    /// # Errors
    /// `Invalid`, naming the webhook and the fault.
    pub fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        self.checked().map_err(|error| Error::invalid(format!("webhook `{}`: {error}", self.name)))
    }

    fn checked(&self) -> Result<()> {
        let Self { url, url_from, digest, time_zone, secret, .. } = self;
        demand(url.is_some() != url_from.is_some(), "say where it is by one of `url` and `url_from`")?;
        if let Some(url) = url {
            check_webhook_url(url).map_err(|why| Error::invalid(format!("`url` {why}")))?;
        }
        let time = digest.as_deref().unwrap_or_default();
        demand(
            digest.is_none() || self.digest_seconds().is_some(),
            format!("`digest` is a time of the day from 00:00 to 23:59, not `{time}`"),
        )?;
        if let Some(name) = time_zone {
            Zone::parse(name).map_err(|error| Error::invalid(format!("`time_zone`: {error}")))?;
        }
        demand(time_zone.is_none() || digest.is_some(), "`time_zone` is that of `digest`, which is missing")?;
        for (field, secret) in [("url_from", url_from), ("secret", secret)] {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            let is_name = secret
                .as_ref()
                .is_none_or(|name| (1..=MAX_SECRET_NAME).contains(&name.len()) && name.bytes().all(is_plain));
            demand(
                is_name,
                format!(
                    "`{field}` is the name of a secret: 1 to {MAX_SECRET_NAME} of a-z, 0-9 and _, not the secret itself"
                ),
            )?;
        }
        Ok(())
    }

    /// Returns whether its URL, as written, is one to which a projector posts only if it is configured to.
    pub(crate) fn is_private(&self) -> bool {
        let Some(url) = &self.url else { return false };
        let Some(rest) = url.strip_prefix("https://") else { return true };
        let whom = rest.split(['/', '?']).next().unwrap_or_default();
        let host = whom.strip_prefix('[').and_then(|host| host.split(']').next());
        let host = host.or_else(|| whom.split(':').next()).unwrap_or_default();
        match host.parse() {
            Ok(IpAddr::V4(of)) => of.is_private() || of.is_loopback() || of.is_link_local(),
            Ok(IpAddr::V6(of)) => of.is_loopback() || of.is_unique_local() || of.is_unicast_link_local(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        }
    }

    /// Time zone of its digest; UTC, if this program does not know the zone.
    pub(crate) fn zone(&self) -> Zone {
        self.time_zone.as_deref().and_then(|name| Zone::parse(name).ok()).unwrap_or(Zone::UTC)
    }

    /// Time of its digest, in seconds after midnight by clocks of its time zone; `None`, when it has no digest.
    pub(crate) fn digest_seconds(&self) -> Option<i64> {
        minutes_of(self.digest.as_deref()?).filter(|minutes| *minutes < 24 * 60).map(|minutes| minutes * 60)
    }
}

/// Checks the URL of a webhook.
///
/// # Errors
/// The fault, without the URL, which may be a secret.
pub fn check_webhook_url(text: &str) -> Result<(), &'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let whom = rest.and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
    let faults = [
        (text.len() > MAX_URL_BYTES, "has more than 1000 bytes"),
        (rest.is_none(), "should begin with https:// (or http://, where private addresses are allowed)"),
        (
            !text.bytes().all(|byte| byte.is_ascii_graphic()),
            "holds something else than letters, digits and signs of ASCII",
        ),
        (text.contains('#') || whom.contains('@'), "must have neither a user or password nor a fragment"),
        (whom.starts_with(':') || whom.is_empty(), "names no host"),
    ];
    faults.into_iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, fault)| Err(fault))
}

/// Subject of the post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Posting {
    /// The transition of a rule.
    Transition,
    /// A page of a digest.
    Digest,
}

/// State of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is tried, again and again.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was tried for a day, or can never be delivered.
    GivenUp,
}

/// Answer of a receiver to a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Accepted.
    Taken,
    /// Answered, and not accepted.
    Refused(String),
    /// Answered that the receiver wants no further posts.
    Gone(String),
    /// Not reached, not answered, or failed in the receiver.
    Down(String),
}

/// Post to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// Subject of the post.
    #[schema(inline)]
    pub of: Posting,
    /// The id of the transition or digest.
    pub id: String,
    /// The rule that crossed.
    #[schema(required)]
    pub rule: Option<String>,
    /// The day that was judged, or the last one of the digest.
    #[schema(value_type = String, format = Date)]
    pub day: Day,
    /// The webhook.
    pub webhook: String,
    /// Outcome so far.
    #[schema(inline)]
    pub state: DeliveryState,
    /// Number of attempts.
    pub tries: u32,
    /// When the rule crossed, or the digest was made.
    #[schema(value_type = String, format = DateTime)]
    pub made_at: Timestamp,
    /// When it is tried again, of one that is pending.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    pub next_at: Option<Timestamp>,
    /// When it was delivered or given up.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    pub settled_at: Option<Timestamp>,
    /// Why the last try failed.
    #[schema(required)]
    pub why: Option<String>,
    /// Number of writes; 0 before the first.
    #[schema(ignore)]
    pub ver: i64,
    /// Part of its key: the rule and when that was created, or the page of a digest.
    #[schema(ignore)]
    pub source: String,
    /// Body, until it is delivered.
    #[schema(ignore)]
    pub body: Option<String>,
}

impl Delivery {
    /// Creates the delivery of a transition to a webhook, which is due at once.
    pub fn of(rule_transition: &RuleTransition, webhook: &str, body: String) -> Self {
        let source = format!("{}/{}", rule_transition.rule, rule_transition.created_at.micros());
        let (id, rule) = (rule_transition.id.clone(), Some(rule_transition.rule.clone()));
        Self::new(
            (Posting::Transition, id, source),
            (rule_transition.day, webhook),
            (rule_transition.at, body),
            rule,
        )
    }

    /// Creates the delivery of a page of a digest, which is due at once.
    pub(crate) fn of_digest(page: usize, to: (Day, &str), made: (Timestamp, String)) -> Self {
        let id = digest_id(to, page);
        Self::new((Posting::Digest, id, digest_source(page)), to, made, None)
    }

    fn new(
        (of, id, source): (Posting, String, String),
        (day, webhook): (Day, &str),
        (made_at, body): (Timestamp, String),
        rule: Option<String>,
    ) -> Self {
        Self {
            of,
            id,
            rule,
            day,
            webhook: webhook.to_owned(),
            state: DeliveryState::Pending,
            tries: 0,
            made_at,
            next_at: Some(made_at),
            settled_at: None,
            why: None,
            ver: 0,
            source,
            body: Some(body),
        }
    }

    /// Returns whether it is to be tried at an instant.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.next_at.is_some_and(|next| next <= now)
    }

    /// Counts a try before it is made: who finds it then leaves it alone until the try is over.
    #[must_use]
    pub fn claimed(&self, now: Timestamp) -> Self {
        let tries = self.tries.saturating_add(1);
        let next_at = Timestamp::from_micros(now.micros() + self.wait(tries).as_micros() as i64);
        Self { ver: self.ver + 1, tries, next_at: next_at.or(Some(now)), ..self.clone() }
    }

    /// Notes the answer to a try.
    #[must_use]
    pub fn after(&self, posted: &Posted, now: Timestamp) -> Self {
        let is_late = now >= self.made_at.plus_seconds(TRIED_FOR_SECONDS);
        let (state, why) = match posted {
            Posted::Taken => (DeliveryState::Delivered, None),
            Posted::Refused(why) | Posted::Down(why) if !is_late => (DeliveryState::Pending, Some(why)),
            Posted::Refused(why) | Posted::Down(why) | Posted::Gone(why) => {
                (DeliveryState::GivenUp, Some(why))
            }
        };
        let is_pending = state == DeliveryState::Pending;
        Self {
            ver: self.ver + 1,
            state,
            next_at: self.next_at.filter(|_| is_pending),
            settled_at: (!is_pending).then_some(now),
            why: why.map(|why| why[..why.floor_char_boundary(MAX_WHY_BYTES)].to_owned()),
            body: self.body.clone().filter(|_| state != DeliveryState::Delivered),
            ..self.clone()
        }
    }

    /// Makes it due at once, if a clock that was ahead put it off for longer than one waits, or gave it up after a time that has not
    /// passed by the latest of the clocks; else `None`.
    #[must_use]
    pub fn hastened(&self, now: Timestamp, latest: Timestamp) -> Option<Self> {
        let longest = latest.plus_seconds(2 * LONGEST_WAIT.as_secs() as i64);
        let is_early = match self.state {
            DeliveryState::Pending => self.next_at.is_some_and(|next| next > longest),
            DeliveryState::GivenUp => self.settled_at.is_some_and(|at| at > latest),
            DeliveryState::Delivered => false,
        };
        let (made_at, state) = (self.made_at.min(now), DeliveryState::Pending);
        let (ver, next_at) = (self.ver + 1, Some(now));
        is_early.then(|| Self { ver, made_at, state, next_at, settled_at: None, ..self.clone() })
    }

    /// Time from a try to the next: exponential, with jitter of a quarter up and down that its id decides, so that those that
    /// failed together do not come again together.
    fn wait(&self, tries: u32) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(20)).min(LONGEST_WAIT);
        let mut hasher = DefaultHasher::new();
        (&self.id, &self.webhook, tries).hash(&mut hasher);
        doubled.mul_f64(0.75 + (hasher.finish() % 1_024) as f64 / 2_048.0)
    }

    /// Reads it from its item.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_item(item: &Item) -> Result<Self> {
        item.to_record(ITEM_VERSION)
    }

    /// Creates its item.
    pub fn to_item(&self, workspace: &Id) -> Item {
        let key = key::delivery(workspace, self.day, &self.source, &self.webhook);
        let item = Item::record(key, ITEM_VERSION, self).with("ver", self.ver.max(1));
        let Some(next_at) = self.next_at else { return item };
        let (pk, sk) = key::delivery_index(next_at);
        item.with("GSI1PK", pk).with("GSI1SK", sk)
    }
}

/// Part of the key of the delivery of a page of a digest. No rule has a name with an `@`.
pub fn digest_source(page: usize) -> String {
    format!("@digest/{page}")
}

/// Id of a page of the digest of a webhook that ends with a day. No webhook has a name with a slash.
fn digest_id((day, webhook): (Day, &str), page: usize) -> String {
    format!("digest.{day}.{webhook}/{page}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_transition() -> RuleTransition {
        let day: Day = "2026-06-03".parse().unwrap();
        let at = Timestamp::parse("2026-06-04T00:01:00Z").unwrap();
        RuleTransition {
            transition: Transition::Fires,
            ..RuleTransition::resolved("few", day.start(), (day, at), "a < b & c".into())
        }
    }

    #[test]
    fn webhook_body_serves_programs_and_people() {
        let id = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let webhook = |format| Webhook { format, ..Webhook::default() };
        let body = webhook(WebhookFormat::Json).body(&id, "credit/prod", &rule_transition());
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&body["type"], &body["timestamp"]),
            (&json!("alert.fires"), &json!("2026-06-04T00:01:00Z"))
        );
        let data = &body["data"];
        assert_eq!(
            (&data["id"], &data["workspace"], &data["path"], &data["text"]),
            (
                &json!(rule_transition().id),
                &json!("2NBs0sLBnJxEcoDLgVnQdJkhEgV"),
                &json!("credit/prod"),
                &json!("a < b & c")
            )
        );
        let told = webhook(WebhookFormat::Slack).body(&id, "credit/prod", &rule_transition());
        assert_eq!(told, r#"{"text":":rotating_light: *few* fires in credit/prod: a &lt; b &amp; c"}"#);
    }

    #[test]
    fn private_urls_are_known_by_their_text() {
        let at = |url: &str| Webhook { url: Some(url.into()), ..Webhook::default() }.is_private();
        for url in [
            "http://a.example/",
            "https://127.0.0.1",
            "https://10.0.0.1:8443/x",
            "https://[::1]:9/",
            "https://localhost:1?x",
        ] {
            assert!(at(url), "{url}");
        }
        for url in ["https://a.example", "https://93.184.216.34/10.0.0.1", "https://[2606:2800::1]/"] {
            assert!(!at(url), "{url}");
        }
        assert!(!Webhook::default().is_private(), "the URL is a secret of the projector");
    }

    #[test]
    fn webhook_check_validates_address_and_secret_names() {
        let text = |text: &str| Some(text.to_owned());
        let good =
            Webhook { name: "oncall".into(), url: text("https://a.example/x?y=1"), ..Webhook::default() };
        good.check().unwrap();
        Webhook { url: None, url_from: text("slack_url"), secret: text("oncall"), ..good.clone() }
            .check()
            .unwrap();
        for (webhook, why) in [
            (Webhook { name: "a/b".into(), ..good.clone() }, "the name `a/b`"),
            (Webhook { url: None, ..good.clone() }, "one of `url` and `url_from`"),
            (Webhook { url_from: text("slack_url"), ..good.clone() }, "one of `url` and `url_from`"),
            (Webhook { url: text("a.example"), ..good.clone() }, "https://"),
            (Webhook { url: text("ftp://a.example/"), ..good.clone() }, "https://"),
            (Webhook { url: text("https://u:p@a.example/"), ..good.clone() }, "neither a user"),
            (Webhook { url: text("https://a.example/#b"), ..good.clone() }, "fragment"),
            (Webhook { url: text("https:///x"), ..good.clone() }, "names no host"),
            (Webhook { url: text("https://a.example/ b"), ..good.clone() }, "ASCII"),
            (
                Webhook { url: Some(format!("https://a.example/{}", "x".repeat(1_000))), ..good.clone() },
                "1000 bytes",
            ),
            (
                Webhook { url: None, url_from: text("../etc/passwd"), ..good.clone() },
                "`url_from` is the name",
            ),
            (Webhook { secret: text("whsec_MfKQ9r8G"), ..good.clone() }, "not the secret itself"),
            (Webhook { secret: text(""), ..good.clone() }, "`secret` is the name"),
            (Webhook { digest: text("24:00"), ..good.clone() }, "from 00:00 to 23:59, not `24:00`"),
            (Webhook { digest: text("7:00"), ..good.clone() }, "from 00:00 to 23:59"),
            (Webhook { digest: text("07:60"), ..good.clone() }, "from 00:00 to 23:59"),
            (Webhook { time_zone: text("UTC"), ..good.clone() }, "that of `digest`, which is missing"),
            (
                Webhook { digest: text("07:00"), time_zone: text("Berlin"), ..good.clone() },
                "webhook `oncall`: `time_zone`: `Berlin` is no time zone",
            ),
        ] {
            let said = webhook.check().unwrap_err().to_string();
            assert!(said.contains(why), "{webhook:?}: {said}");
            assert!(!said.contains("u:p"), "{said}");
        }
    }

    fn delivery() -> Delivery {
        Delivery::of(&rule_transition(), "oncall", "{}".into())
    }

    #[test]
    fn a_delivery_stands_in_the_index_until_settled() {
        let id = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let item = delivery().to_item(&id);
        assert_eq!(item.text("GSI1SK").unwrap(), "1780531260000000");
        assert_eq!(Delivery::from_item(&item).unwrap(), Delivery { ver: 1, ..delivery() });
        assert!(Delivery::from_item(&item.with("state", "odd")).is_err());
        let now = rule_transition().at.plus_seconds(60);
        let gone = delivery().after(&Posted::Gone("410 Gone".into()), now);
        let item = gone.to_item(&id);
        assert_eq!((item.text("state").unwrap(), item.text("why").unwrap()), ("given_up", "410 Gone"));
        assert!(!item.attributes.contains_key("GSI1PK"));
        let page = Delivery::of_digest(2, (rule_transition().day, "mail"), (now, String::new()));
        assert_eq!((page.id.as_str(), page.source.as_str()), ("digest.2026-06-03.mail/2", "@digest/2"));
    }

    #[test]
    fn delivery_retries_back_off_and_end() {
        let (mut one, mut now, mut waits) = (delivery(), delivery().made_at, Vec::new());
        while one.state == DeliveryState::Pending {
            assert!(one.is_due(now));
            one = one.claimed(now);
            assert!(!one.is_due(now.plus_seconds(14)), "a try may take 10 s");
            waits.push((one.next_at.unwrap().micros() - now.micros()) / 1_000_000);
            one = one.after(&Posted::Down("503".into()), now);
            now = one.next_at.or(one.settled_at).unwrap();
        }
        assert_eq!((one.state, one.why.as_deref()), (DeliveryState::GivenUp, Some("503")));
        let day = now.micros() - one.made_at.micros();
        assert!((24 * 60 * 60..26 * 60 * 60).contains(&(day / 1_000_000)), "{waits:?}");
        assert!(
            waits
                .iter()
                .zip([20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600])
                .all(|(wait, usual)| { (usual * 3 / 4 - 1..=usual * 5 / 4).contains(wait) })
        );
        assert!((25..45).contains(&waits.len()), "{waits:?}");
        let mut other = Delivery { webhook: "slack".into(), ..delivery() };
        other = other.claimed(other.made_at);
        assert_ne!(other.next_at, delivery().claimed(other.made_at).next_at, "not all at one time");
        let taken = other.after(&Posted::Taken, now);
        assert_eq!(
            (taken.state, taken.why.clone(), taken.is_due(now)),
            (DeliveryState::Delivered, None, false)
        );
    }
}
