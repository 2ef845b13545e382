//! Webhooks: the URLs to which crossings and digests are posted, and the bodies of these posts.

use std::net::IpAddr;

use event::{Error, Id, Result, Zone, id::check_name};
use fold::alert::Crossing;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{CrossedRule, watched::minutes_of};
use crate::json;

/// Maximum webhooks of a workspace.
pub const MAX_WEBHOOKS: usize = 8;

/// Maximum bytes of the URL of a webhook.
pub const MAX_URL_BYTES: usize = 1_000;

/// Maximum letters of the name of a secret.
pub const MAX_SECRET_NAME: usize = 64;

/// Format of the body of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFormat {
    /// JSON with all fields of the crossing, for programs.
    #[default]
    Json,
    /// Text in the form of Slack's incoming webhooks, and of services compatible with them.
    Slack,
}

impl WebhookFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::Json, Self::Slack];

    /// Name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Slack => "slack",
        }
    }

    /// Body with a text for Slack.
    pub(crate) fn slack(told: &str) -> String {
        json!({ "text": escaped(told) }).to_string()
    }
}

/// Escapes a text for Slack, so that nothing in it is markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Webhook to which crossings and digests are posted, as people write it in TOML or JSON. [`Webhook::check`] checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Name, which no other webhook of the workspace has.
    pub name: String,
    /// Address of the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Name of the secret that holds the address, for a URL that is itself secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_from: Option<String>,
    /// Format of the body.
    #[serde(default)]
    pub format: WebhookFormat,
    /// Name of the secret by which deliveries are signed. Without one they are not signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Time of each day at which a digest of the workspace is posted, such as `07:00`. Without one no digest is posted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Time zone of that time, such as `Europe/Berlin`; UTC by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

impl Webhook {
    /// Body that reports a crossing of a workspace, given its id and path.
    pub fn body(&self, workspace: &Id, path: &str, crossed: &CrossedRule) -> String {
        match self.format {
            WebhookFormat::Json => {
                let what = crossed.crossing.name();
                let mut data = json::crossing(crossed);
                data["workspace"] = workspace.to_string().into();
                data["path"] = path.into();
                json!({ "type": format!("alert.{what}"), "timestamp": crossed.at.to_string(), "data": data })
                    .to_string()
            }
            WebhookFormat::Slack => {
                let sign = match crossed.crossing {
                    Crossing::Fires => ":rotating_light:",
                    Crossing::Resolves => ":white_check_mark:",
                };
                let CrossedRule { rule, crossing, text, .. } = crossed;
                let [rule, path, text] = [rule.as_str(), path, text].map(escaped);
                json!({ "text": format!("{sign} *{rule}* {} in {path}: {text}", crossing.name()) })
                    .to_string()
            }
        }
    }

    /// Checks the webhook. Only the projector knows if its secrets exist.
    ///
    /// # Errors
    /// `Invalid`, naming the webhook and the fault.
    pub fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        let wrong = |what: String| Error::invalid(format!("webhook `{}`: {what}", self.name));
        match (&self.url, &self.url_from) {
            (Some(url), None) => {
                check_webhook_url(url).map_err(|why| wrong(format!("`url` {why}")))?;
            }
            (None, Some(_)) => {}
            _ => return Err(wrong("say where it is by one of `url` and `url_from`".to_owned())),
        }
        if let Some(time) = self.digest.as_ref().filter(|_| self.digest_seconds().is_none()) {
            return Err(wrong(format!("`digest` is a time of the day from 00:00 to 23:59, not `{time}`")));
        }
        if let Some(name) = &self.time_zone {
            Zone::parse(name).map_err(|error| wrong(format!("`time_zone`: {error}")))?;
            if self.digest.is_none() {
                return Err(wrong("`time_zone` is that of `digest`, which is missing".to_owned()));
            }
        }
        for (field, secret) in [("url_from", &self.url_from), ("secret", &self.secret)] {
            if secret.as_ref().is_some_and(|name| !is_secret_name(name)) {
                let what = format!(
                    "`{field}` is the name of a secret: 1 to {MAX_SECRET_NAME} of a-z, 0-9 and _, not the secret itself"
                );
                return Err(wrong(what));
            }
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
        let minutes = minutes_of(self.digest.as_deref()?)?;
        (minutes < 24 * 60).then_some(minutes * 60)
    }
}

fn is_secret_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=MAX_SECRET_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Checks the URL of a webhook.
///
/// # Errors
/// The fault, without the URL, which may be a secret.
pub fn check_webhook_url(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_URL_BYTES {
        return Err("has more than 1000 bytes");
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or("should begin with https:// (or http://, where private addresses are allowed)")?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds something else than letters, digits and signs of ASCII");
    }
    let whom = rest.split(['/', '?']).next().unwrap_or_default();
    if text.contains('#') || whom.contains('@') {
        return Err("must have neither a user or password nor a fragment");
    }
    match whom.starts_with(':') || whom.is_empty() {
        true => Err("names no host"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use event::{Day, Timestamp};

    use super::*;

    fn crossed() -> CrossedRule {
        let day: Day = "2026-06-03".parse().unwrap();
        CrossedRule {
            rule: "few".into(),
            created_at: day.start(),
            day,
            crossing: Crossing::Fires,
            at: Timestamp::parse("2026-06-04T00:01:00Z").unwrap(),
            measured: Some(1.0),
            value: Some(1.0),
            cut: [("p/00".to_owned(), 7)].into(),
            text: "a < b & c".into(),
        }
    }

    #[test]
    fn webhook_body_serves_programs_and_people() {
        let id = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let webhook = |format| Webhook { format, ..Webhook::default() };
        let body = webhook(WebhookFormat::Json).body(&id, "credit/prod", &crossed());
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&body["type"], &body["timestamp"]),
            (&json!("alert.fires"), &json!("2026-06-04T00:01:00Z"))
        );
        let data = &body["data"];
        assert_eq!(
            (&data["id"], &data["workspace"], &data["path"], &data["text"]),
            (
                &json!(crossed().id()),
                &json!("2NBs0sLBnJxEcoDLgVnQdJkhEgV"),
                &json!("credit/prod"),
                &json!("a < b & c")
            )
        );
        let told = webhook(WebhookFormat::Slack).body(&id, "credit/prod", &crossed());
        assert_eq!(told, r#"{"text":":rotating_light: *few* fires in credit/prod: a &lt; b &amp; c"}"#);
        for format in WebhookFormat::ALL {
            assert_eq!(serde_json::to_value(format).unwrap(), json!(format.name()));
        }
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
}
