//! Keys of alert rules, their states and transitions, of deliveries, and of comparisons of live releases.

use event::{Day, Id, Timestamp};
use table::{Key, KeyRange};

use super::{END, parse_workspace_page, workspace_page};

/// The alert rules of a workspace.
pub fn alert_rules(workspace: &Id) -> Key {
    Key::new(workspace_page(workspace), "set#alerts")
}

/// Partition of `GSI1` with the alert rules of all workspaces that have some.
pub const ALERT_RULES: &str = "alert-rules";

/// Position of the alert rules of a workspace in `GSI1`.
pub fn alert_rules_index(workspace: &Id) -> (String, String) {
    (ALERT_RULES.to_owned(), workspace_page(workspace))
}

/// Parses the workspace of a key of [`alert_rules`]; `None` for another key.
pub fn parse_alert_rules(key: &Key) -> Option<Id> {
    let workspace = parse_workspace_page(&key.pk)?;
    (alert_rules(&workspace) == *key).then_some(workspace)
}

/// Partition with the states and transitions of the alert rules of a workspace.
fn judged_partition(workspace: &Id) -> String {
    format!("w#{workspace}/alert")
}

/// State of an alert rule.
pub fn standing(workspace: &Id, rule: &str) -> Key {
    Key::new(judged_partition(workspace), format!("standing#{rule}"))
}

/// States of all alert rules of a workspace.
pub fn standings(workspace: &Id) -> KeyRange {
    KeyRange::prefix(judged_partition(workspace), "standing#")
}

/// Parses the rule of a key of [`standing`]; `None` for another key.
pub fn parse_standing(sk: &str) -> Option<&str> {
    sk.strip_prefix("standing#")
}

/// Comparisons of live releases with releases that predict beside them.
pub fn challenges(workspace: &Id) -> Key {
    Key::new(judged_partition(workspace), "challenges")
}

/// Lag of projections on the last days.
pub fn lags(workspace: &Id) -> Key {
    Key::new(judged_partition(workspace), "lag")
}

/// Transition of an alert rule on a day; `created_at` tells a rule from a deleted one of the same name.
pub fn transition(workspace: &Id, day: Day, rule: &str, created_at: Timestamp) -> Key {
    let sk = format!("transition#{day}/{rule}/{}", created_at.micros());
    Key::new(judged_partition(workspace), sk)
}

/// Transitions on the days from one to another.
pub fn transitions(workspace: &Id, from: Day, to: Day) -> KeyRange {
    KeyRange {
        pk: judged_partition(workspace),
        from: format!("transition#{from}"),
        to: format!("transition#{to}/{END}"),
    }
}

/// All transitions.
pub fn all_transitions(workspace: &Id) -> KeyRange {
    KeyRange::prefix(judged_partition(workspace), "transition#")
}

/// Delivery to a webhook on a day: of a transition, by its rule and the rule's creation, or of a page of a digest
/// (`@digest/1`).
pub fn delivery(workspace: &Id, day: Day, source: &str, webhook: &str) -> Key {
    Key::new(judged_partition(workspace), format!("delivery#{day}/{source}/{webhook}"))
}

/// Deliveries of the days from one to another.
pub fn deliveries(workspace: &Id, from: Day, to: Day) -> KeyRange {
    KeyRange {
        pk: judged_partition(workspace),
        from: format!("delivery#{from}"),
        to: format!("delivery#{to}/{END}"),
    }
}

/// Deliveries of a day and later ones.
pub fn deliveries_since(workspace: &Id, day: Day) -> KeyRange {
    KeyRange { to: format!("delivery#{END}"), ..deliveries(workspace, day, day) }
}

/// Parses the workspace and the webhook of a key of [`delivery`]; `None` for another key.
pub fn parse_delivery(key: &Key) -> Option<(Id, &str)> {
    let workspace = Id::parse(key.pk.strip_prefix("w#")?.strip_suffix("/alert")?).ok()?;
    let parts: Vec<&str> = key.sk.strip_prefix("delivery#")?.split('/').collect();
    let [_, _, _, webhook] = parts[..] else { return None };
    Some((workspace, webhook))
}

/// Partition of `GSI1` with the unsettled deliveries of all workspaces, by due time.
const DELIVERIES: &str = "deliveries";

/// Position in `GSI1` of deliveries that are due at an instant.
pub fn delivery_index(due_at: Timestamp) -> (String, String) {
    (DELIVERIES.to_owned(), format!("{:016}", due_at.micros()))
}

/// Deliveries that are due by an instant, in `GSI1`.
pub fn deliveries_due(by: Timestamp) -> KeyRange {
    let (pk, to) = delivery_index(by);
    KeyRange { pk, from: String::new(), to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_strings() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let day: Day = "2013-06-01".parse().unwrap();
        let partition = "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV/alert";
        assert_eq!(standing(&workspace, "auc-low"), Key::new(partition, "standing#auc-low"));
        assert_eq!(parse_standing("standing#auc-low"), Some("auc-low"));
        let rule_transition = transition(&workspace, day, "auc-low", day.start());
        assert_eq!(rule_transition, Key::new(partition, "transition#2013-06-01/auc-low/1370044800000000"));
        assert_eq!(challenges(&workspace), Key::new(partition, "challenges"));
        assert_eq!(lags(&workspace), Key::new(partition, "lag"));
        let range = transitions(&workspace, day, day);
        assert!(range.from <= rule_transition.sk && rule_transition.sk <= range.to);
        assert_eq!(parse_alert_rules(&alert_rules(&workspace)), Some(workspace.clone()));
        assert_eq!(parse_alert_rules(&rule_transition), None);
        for source in ["auc-low/1370044800000000", "@digest/2"] {
            let delivered = delivery(&workspace, day, source, "oncall");
            assert_eq!(delivered, Key::new(partition, format!("delivery#2013-06-01/{source}/oncall")));
            for range in [deliveries(&workspace, day, day), deliveries_since(&workspace, day)] {
                assert!(range.from <= delivered.sk && delivered.sk <= range.to);
            }
            assert_eq!(parse_delivery(&delivered), Some((workspace.clone(), "oncall")));
            let all = all_transitions(&workspace);
            let is_within = |key: &Key| all.from <= key.sk && key.sk <= all.to;
            assert!(is_within(&rule_transition) && !is_within(&delivered));
        }
        assert_eq!(parse_delivery(&rule_transition), None);
        let index = ("deliveries".to_owned(), "1370044800000000".to_owned());
        assert_eq!(delivery_index(day.start()), index);
        assert_eq!(deliveries_due(day.start()).to, index.1);
    }
}
