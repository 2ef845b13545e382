//! Text of a digest: JSON for programs, lines of text for people.

use std::fmt::Write as _;

use event::{Id, Kind, Timestamp};
use log::key::{EntityId, Followed};
use serde_json::{Value, json};

use super::{DecidedComparison, DueDigest, FiredAlert, LiveRelease, ToldDigest, WeekOf, WeekValue};
use crate::{Webhook, WebhookFormat};

/// A digest as JSON.
pub fn digest_json(week: &WeekOf) -> Value {
    let count =
        |kind| json!({ "last": count(&week.counts.last, kind), "before": count(&week.counts.before, kind) });
    let workspace = EntityId::Workspace(week.workspace.clone()).to_string();
    let model = week.model.as_ref().map(|(id, name)| {
        let id = EntityId::Model(week.workspace.clone(), id.clone()).to_string();
        json!({ "id": id, "name": name })
    });
    json!({
        "workspace": workspace,
        "path": week.path,
        "model": model,
        "from": week.window.from().to_string(),
        "to": week.window.to().to_string(),
        "predictions": count(Kind::Predictions),
        "outcomes": week.model.is_none().then(|| count(Kind::Outcomes)),
        "metric": week.metric.as_ref().map(|primary| primary.metric.name()),
        "better": week.metric.as_ref().map(|primary| primary.direction.name()),
        "live": week.live.iter().map(live_json).collect::<Vec<_>>(),
        "more_live": week.more_live,
        "alerts": week.alerts.iter().map(alert_json).collect::<Vec<_>>(),
        "more_alerts": week.more_alerts,
        "decided": week.decided.iter().map(decided_json).collect::<Vec<_>>(),
        "more_decided": week.more_decided,
    })
}

fn decided_json(one: &DecidedComparison) -> Value {
    json!({
        "at": one.at.to_string(),
        "model": one.model,
        "challenger": one.challenger,
        "environment": one.environment,
        "text": one.text,
    })
}

fn count(counts: &std::collections::BTreeMap<Kind, u64>, kind: Kind) -> u64 {
    counts.get(&kind).copied().unwrap_or(0)
}

fn live_json(one: &LiveRelease) -> Value {
    let measure = |measure: Option<WeekValue>| measure.map(|of| json!({ "value": of.value, "n": of.n }));
    json!({
        "release": one.release,
        "model": one.model,
        "environments": one.environments,
        "predictions": { "last": one.predictions.last, "before": one.predictions.before },
        "last": measure(one.measure.last),
        "before": measure(one.measure.before),
        "change": one.change(),
    })
}

fn alert_json(alert: &FiredAlert) -> Value {
    let crossed = &alert.crossed;
    json!({
        "id": crossed.id(),
        "rule": crossed.rule,
        "model": alert.model,
        "day": crossed.day.to_string(),
        "at": crossed.at.to_string(),
        "text": crossed.text,
    })
}

/// Maximum users named on a page of a digest, and the maximum of their follows together; one user may exceed it alone.
pub const MAX_FOLLOWERS: usize = 200;
const MAX_FOLLOWED: usize = 1_000;

/// Maximum pages of a digest.
pub const MAX_DIGEST_PAGES: usize = 20;

/// User, and the follows of this user in a workspace.
pub type FollowersOf = (Id, Vec<Followed>);

/// Splits the followers into pages: at least one page, and the number of followers that fit on none.
fn pages(followers: &[FollowersOf]) -> (Vec<&[FollowersOf]>, usize) {
    let (mut pages, mut rest) = (Vec::new(), followers);
    while pages.len() < MAX_DIGEST_PAGES && (pages.is_empty() || !rest.is_empty()) {
        let mut follows = 0;
        let fits = |(_, of): &&FollowersOf| {
            follows += of.len();
            follows <= MAX_FOLLOWED
        };
        let count = rest.iter().take(MAX_FOLLOWERS).take_while(fits).count();
        let (page, after) = rest.split_at(count.max(1).min(rest.len()));
        pages.push(page);
        rest = after;
    }
    (pages, rest.len())
}

impl DueDigest {
    /// Pages of the digest, each with its whole text and some of the followers of the workspace and of its models; `more` further
    /// followers are not known. For people it is one page.
    pub fn told(
        &self,
        week: &WeekOf,
        followers: &[FollowersOf],
        more: usize,
        at: Timestamp,
    ) -> Vec<ToldDigest> {
        let Webhook { name, format, .. } = &self.webhook;
        let page = |page, body| ToldDigest { day: self.day, webhook: name.clone(), page, at, body };
        if *format == WebhookFormat::Slack {
            return vec![page(1, WebhookFormat::slack(&week.text()))];
        }
        let (pages, unnamed) = pages(followers);
        let (count, mut later) = (pages.len(), followers.len() + more);
        debug_assert!(unnamed <= later);
        let mut data = digest_json(week);
        let mut told = Vec::with_capacity(count);
        for (number, followers) in (1..).zip(pages) {
            let follower = |(user, follows): &FollowersOf| {
                let follows: Vec<String> = follows.iter().map(Followed::to_string).collect();
                json!({ "user": EntityId::User(user.clone()).to_string(), "follows": follows })
            };
            later -= followers.len();
            let mut one = page(number, String::new());
            data["id"] = one.id().into();
            data["page"] = number.into();
            data["pages"] = count.into();
            data["followers"] = followers.iter().map(follower).collect();
            data["more_followers"] = later.into();
            one.body = json!({ "type": "digest", "timestamp": at.to_string(), "data": data }).to_string();
            told.push(one);
        }
        told
    }
}

impl WeekOf {
    /// Text for people, in lines.
    pub fn text(&self) -> String {
        let counts = |kind: Kind| {
            let (last, before) = (count(&self.counts.last, kind), count(&self.counts.before, kind));
            format!("{last} {}{}", kind.name(), share(last, before))
        };
        let mut text = format!(
            ":newspaper: *{}*, {} to {}: {}, {}",
            self.path,
            self.window.from(),
            self.window.to(),
            counts(Kind::Predictions),
            counts(Kind::Outcomes),
        );
        let metric = self.metric.as_ref().map(|primary| primary.metric.name());
        for one in &self.live {
            let places: Vec<&str> = one.environments.iter().map(String::as_str).collect();
            // Writing to a text never fails.
            _ = write!(
                text,
                "\n• {} ({}): {}, {} predictions{}",
                one.model,
                places.join(", "),
                one.release,
                one.predictions.last,
                share(one.predictions.last, one.predictions.before)
            );
            if let (Some(metric), Some(last)) = (metric, one.measure.last) {
                _ = write!(text, ", {metric} {} of {} judged", short(last.value), last.n);
                if let Some(change) = one.change() {
                    _ = write!(
                        text,
                        ", {}{} from the week before",
                        if change < 0.0 { "" } else { "+" },
                        short(change)
                    );
                }
            }
        }
        _ = match self.more_live {
            0 => Ok(()),
            more => write!(text, "\n• {more} more are live"),
        };
        for alert in &self.alerts {
            _ = write!(text, "\n:rotating_light: {}: {}", alert.crossed.rule, alert.crossed.text);
        }
        _ = match (self.alerts.is_empty(), self.more_alerts) {
            (true, _) => write!(text, "\nno alert fired"),
            (false, 0) => Ok(()),
            (false, more) => write!(text, "\n{more} more alerts fired"),
        };
        for one in &self.decided {
            _ = write!(text, "\n:trophy: {}", one.text);
        }
        _ = match self.more_decided {
            0 => Ok(()),
            more => write!(text, "\n{more} more comparisons were decided"),
        };
        text
    }
}

/// Change against the days before, in percent; empty, if the count before was 0.
fn share(last: u64, before: u64) -> String {
    if before == 0 {
        return String::new();
    }
    format!(" ({:+.0}%)", 100.0 * (last as f64 / before as f64 - 1.0))
}

/// A number in a sentence, with at most four decimals.
fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fold::alert::Crossing;

    use super::*;
    use crate::{CrossedRule, PrimaryMetric, Weeks};

    fn week() -> WeekOf {
        let id = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: event::Day = "2026-06-03".parse().unwrap();
        let counts = |predictions| BTreeMap::from([(Kind::Predictions, predictions), (Kind::Outcomes, 50)]);
        let live = LiveRelease {
            release: "v2".into(),
            model_id: id.clone(),
            model: "churn".into(),
            environments: ["production".to_owned()].into(),
            predictions: Weeks { last: 90, before: 100 },
            measure: Weeks {
                last: Some(WeekValue { value: 0.75, n: 40 }),
                before: Some(WeekValue { value: 0.8, n: 30 }),
            },
        };
        let crossed = CrossedRule {
            rule: "few".into(),
            created_at: day.start(),
            day,
            crossing: Crossing::Fires,
            at: Timestamp::parse("2026-06-04T00:01:00Z").unwrap(),
            measured: Some(1.0),
            value: Some(1.0),
            cut: BTreeMap::new(),
            text: "a < b".into(),
        };
        WeekOf {
            workspace: id,
            path: "credit/prod".into(),
            model: None,
            window: "2026-06-01..2026-06-07".parse().unwrap(),
            counts: Weeks { last: counts(120), before: counts(100) },
            metric: PrimaryMetric::parse(Some("auc"), None).unwrap(),
            live: vec![live],
            more_live: 2,
            alerts: vec![FiredAlert { crossed, model: None }],
            more_alerts: 0,
            decided: Vec::new(),
            more_decided: 0,
        }
    }

    #[test]
    fn digest_has_forms_for_people_and_programs() {
        let wanted = ":newspaper: *credit/prod*, 2026-06-01 to 2026-06-07: 120 predictions (+20%), 50 outcomes (+0%)\n\
            • churn (production): v2, 90 predictions (-10%), auc 0.75 of 40 judged, -0.05 from the week before\n\
            • 2 more are live\n:rotating_light: few: a < b";
        assert_eq!(week().text(), wanted);
        let quiet = WeekOf { live: Vec::new(), more_live: 0, alerts: Vec::new(), ..week() };
        assert!(quiet.text().ends_with("outcomes (+0%)\nno alert fired"), "{}", quiet.text());
        let at = Timestamp::parse("2026-06-08T07:00:00Z").unwrap();
        let due = |format| DueDigest {
            webhook: Webhook { name: "mail".into(), format, ..Webhook::default() },
            day: week().window.to(),
        };
        let followers = [(week().workspace, vec![Followed::Workspace(week().workspace)])];
        let told = due(WebhookFormat::Json).told(&week(), &followers, 3, at).remove(0);
        let body: Value = serde_json::from_str(&told.body).unwrap();
        let data = &body["data"];
        assert_eq!((&body["type"], &body["timestamp"]), (&json!("digest"), &json!("2026-06-08T07:00:00Z")));
        assert_eq!((&data["id"], &data["to"]), (&json!("digest.2026-06-07.mail/1"), &json!("2026-06-07")));
        assert_eq!(data["predictions"], json!({ "last": 120, "before": 100 }));
        let live = &data["live"][0];
        assert_eq!((&live["last"], &live["release"]), (&json!({ "value": 0.75, "n": 40 }), &json!("v2")));
        assert!((live["change"].as_f64().unwrap() + 0.05).abs() < 1e-12);
        assert_eq!(data["alerts"][0]["text"], json!("a < b"));
        let follows = format!("workspace:{}", week().workspace);
        assert_eq!(data["followers"][0]["user"], json!(format!("u_{}", week().workspace)), "{follows}");
        assert_eq!(data["more_followers"], json!(3));
        assert_eq!((&data["page"], &data["pages"]), (&json!(1), &json!(1)));
        let slack = due(WebhookFormat::Slack).told(&week(), &followers, 3, at).remove(0);
        assert!(slack.body.contains("few: a &lt; b"), "{}", slack.body);
    }

    #[test]
    fn digest_followers_are_split_into_pages() {
        let at = Timestamp::parse("2026-06-08T07:00:00Z").unwrap();
        let due = |format| DueDigest {
            webhook: Webhook { name: "mail".into(), format, ..Webhook::default() },
            day: week().window.to(),
        };
        let follower = |follows| (Id::new(at), vec![Followed::Workspace(week().workspace); follows]);
        let told = |followers: &[FollowersOf], more| {
            let told = due(WebhookFormat::Json).told(&week(), followers, more, at);
            let named = told.iter().enumerate().map(|(number, one)| {
                let data = serde_json::from_str::<Value>(&one.body).unwrap()["data"].clone();
                assert_eq!(
                    (data["page"].as_u64().unwrap(), one.page),
                    (number as u64 + 1, number as u32 + 1)
                );
                assert_eq!((&data["pages"], &data["id"]), (&json!(told.len()), &json!(one.id())));
                assert_eq!(data["path"], json!("credit/prod"));
                (data["followers"].as_array().unwrap().len(), data["more_followers"].as_u64().unwrap())
            });
            named.collect::<Vec<_>>()
        };
        assert_eq!(told(&[], 0), [(0, 0)]);
        let many: Vec<FollowersOf> = (0..450).map(|_| follower(1)).collect();
        assert_eq!(told(&many, 7), [(200, 257), (200, 57), (50, 7)]);
        // A user with very many follows has a page alone.
        assert_eq!(
            told(&[follower(1_200), follower(600), follower(400), follower(1)], 0),
            [(1, 3), (2, 1), (1, 0)]
        );
        let most: Vec<FollowersOf> = (0..MAX_FOLLOWERS * MAX_DIGEST_PAGES + 3).map(|_| follower(1)).collect();
        let pages = told(&most, 0);
        assert_eq!((pages.len(), pages.last()), (MAX_DIGEST_PAGES, Some(&(200, 3))));
        let ids: std::collections::BTreeSet<String> =
            due(WebhookFormat::Json).told(&week(), &many, 0, at).iter().map(ToldDigest::id).collect();
        let wanted = ["digest.2026-06-07.mail/1", "digest.2026-06-07.mail/2", "digest.2026-06-07.mail/3"];
        assert_eq!(ids, wanted.map(String::from).into());
        assert_eq!(due(WebhookFormat::Slack).told(&week(), &many, 0, at).len(), 1);
    }

    #[test]
    fn what_was_decided_is_told() {
        let at = Timestamp::parse("2026-06-05T07:00:00Z").unwrap();
        let decided = DecidedComparison {
            at,
            model: Some("churn".into()),
            challenger: "v3".into(),
            environment: Some("production".into()),
            text: "v3 is better than v2".into(),
        };
        let other = DecidedComparison { model: Some("other".into()), ..decided.clone() };
        let week = WeekOf { decided: vec![decided, other], more_decided: 1, ..week() };
        let told = week.text();
        let lines =
            "\n:trophy: v3 is better than v2\n:trophy: v3 is better than v2\n1 more comparisons were decided";
        assert!(told.ends_with(lines), "{told}");
        let of_model = digest_json(&week.of_model(&week.workspace, "churn", Weeks::default()));
        let one = json!([{ "at": "2026-06-05T07:00:00Z", "model": "churn", "challenger": "v3",
                           "environment": "production", "text": "v3 is better than v2" }]);
        assert_eq!(of_model["decided"], one);
    }

    #[test]
    fn model_digest_contains_only_its_own_data() {
        let other = Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap();
        let of = week().of_model(&other, "other", Weeks { last: 0, before: 0 });
        assert!(of.live.is_empty() && of.alerts.is_empty());
        assert_eq!(of.counts.last, BTreeMap::from([(Kind::Predictions, 0)]));
        let of = week().of_model(&week().workspace, "churn", Weeks { last: 95, before: 110 });
        assert_eq!((of.live.len(), of.counts.before[&Kind::Predictions]), (1, 110));
        let told = digest_json(&of);
        assert_eq!((&told["model"]["name"], &told["outcomes"]), (&json!("churn"), &Value::Null));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.123_456, -0.000_01, 2.0, -1.5].map(short), ["0.1235", "0", "2", "-1.5"]);
    }
}
