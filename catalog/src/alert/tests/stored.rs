//! Items as they are stored.

use super::*;

#[test]
fn rules_are_stored_so() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let rule = AlertRule::of(full(), at("2026-06-10T00:00:00Z")).unwrap();
    let late =
        AlertRuleBody { missing: Some("predictions".into()), by: Some("06:00".into()), ..body("late") };
    let late = AlertRule::of(late, at("2026-06-10T00:00:00Z")).unwrap();
    let fields = |rule: &str| {
        let created_at = ("created_at".to_owned(), Value::from(1_781_049_600_000_000));
        Value::M([created_at, ("rule".to_owned(), Value::from(rule))].into())
    };
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("ver", 3)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with(
            "rule#auc-low",
            fields(
                r#"{"name":"auc-low","figure":"auc","model":"churn","environment":"production","below":0.7,"clear":0.75,"min_n":1000,"for":2,"delay":3}"#,
            ),
        )
        .with("rule#late", fields(r#"{"name":"late","missing":"predictions","by":"06:00"}"#));
    let read = Stored::from_item(&stored).unwrap();
    assert_eq!(read.rules.values().cloned().collect::<Vec<_>>(), [rule, late]);
    assert!(read.webhooks.is_empty());
    assert_eq!(read.to_item(&workspace).unwrap().with("ver", 3), stored.clone());
    assert!(Stored::from_item(&stored.clone().with("rule#x", fields("{}"))).is_err());
}

#[test]
fn webhooks_are_stored_so() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let few = r#"{"name":"few","count":"predictions","below":5.0,"notify":["chat"]}"#;
    let fields = [("created_at".to_owned(), Value::from(1)), ("rule".to_owned(), Value::from(few))];
    let chat = r#"{"name":"chat","url_from":"slack_url","format":"slack","secret":"oncall"}"#;
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with("rule#few", Value::M(fields.into()))
        .with("webhook#chat", chat);
    let read = Stored::from_item(&stored).unwrap();
    assert!(read.rules["few"].notifies("chat") && !read.rules["few"].notifies("ops"));
    assert_eq!(read.webhooks["chat"].url_from.as_deref(), Some("slack_url"));
    assert_eq!(read.to_item(&workspace).unwrap(), stored.clone());
    assert!(Stored::from_item(&stored.with("webhook#chat", "x")).is_err());
}

#[test]
fn rules_on_drift_and_tags_are_stored_so() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let fields = |rule: &str| {
        Value::M([("created_at".to_owned(), Value::from(1)), ("rule".to_owned(), Value::from(rule))].into())
    };
    let far = r#"{"name":"far","drift":"score","statistic":"psi","reference":"2026-04-01..2026-04-30","above":0.2}"#;
    let low =
        r#"{"name":"low","figure":"auc","tag":"carrier=UA","min_maturity":0.9,"release":"v1","below":0.7}"#;
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with("rule#far", fields(far))
        .with("rule#low", fields(low));
    let read = Stored::from_item(&stored).unwrap();
    let reference = "2026-04-01..2026-04-30".parse().unwrap();
    let drift = DriftOf { column: "score".into(), statistic: "psi", reference };
    assert_eq!(read.rules["far"].watched, Watched::Drift(drift));
    let Watched::Figure(figure) = &read.rules["low"].watched else { panic!("no figure") };
    assert_eq!((figure.min_maturity, figure.tag.clone()), (0.9, Some(("carrier".into(), "UA".into()))));
    assert_eq!(read.to_item(&workspace).unwrap(), stored);
}

#[test]
fn rules_on_columns_are_stored_so() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let nulls = r#"{"name":"nulls","column":"tag.carrier","statistic":"null_rate","above":0.02,"min_n":100}"#;
    let fields = [("created_at".to_owned(), Value::from(1)), ("rule".to_owned(), Value::from(nulls))];
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with("rule#nulls", Value::M(fields.into()));
    let read = Stored::from_item(&stored).unwrap();
    let column = ColumnOf { column: "tag.carrier".into(), statistic: "null_rate" };
    assert_eq!(read.rules["nulls"].watched, Watched::Column(column));
    assert_eq!(read.to_item(&workspace).unwrap(), stored);
}

#[test]
fn rules_on_lag_are_stored_so() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let behind = r#"{"name":"behind","lag":"predictions","above":300.0}"#;
    let fields = [("created_at".to_owned(), Value::from(1)), ("rule".to_owned(), Value::from(behind))];
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with("rule#behind", Value::M(fields.into()));
    let read = Stored::from_item(&stored).unwrap();
    assert_eq!(read.rules["behind"].watched, Watched::Lag(event::Kind::Predictions));
    assert_eq!(read.to_item(&workspace).unwrap(), stored);
}

#[test]
fn a_digest_stands_in_the_index() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let mail = r#"{"name":"mail","url":"https://a.example/","format":"json","digest":"07:00"}"#;
    // Without a rule as well: what is to be told stands in the index.
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with("webhook#mail", mail);
    let read = Stored::from_item(&stored).unwrap();
    assert_eq!(read.webhooks["mail"].digest.as_deref(), Some("07:00"));
    assert_eq!(read.to_item(&workspace).unwrap(), stored);
}

#[test]
fn a_time_zone_is_stored_so() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let mail = r#"{"name":"mail","url":"https://a.example/","format":"json","digest":"07:00","time_zone":"Europe/Berlin"}"#;
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with("webhook#mail", mail);
    let read = Stored::from_item(&stored).unwrap();
    assert_eq!(read.webhooks["mail"].time_zone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(read.to_item(&workspace).unwrap(), stored);
}

#[test]
fn templates_and_scopes_are_stored_so() {
    let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
    let chat = r#"{"name":"chat","url":"https://a.example/","format":"slack"}"#;
    let rule = |text: &str| {
        Value::M([("created_at".to_owned(), Value::from(1)), ("rule".to_owned(), Value::from(text))].into())
    };
    let far = r#"{"name":"far","drift":"score","reference":"2026-04-01..2026-04-30","model":"m","environment":"e","above":0.2}"#;
    let late = r#"{"name":"late","missing":"predictions","by":"06:00","release":"v1"}"#;
    let many = r#"{"name":"many","count":"predictions","tag":"shop=a","above":5.0}"#;
    let stored = Item::new(key::alert_rules(&workspace))
        .with("v", 1)
        .with("GSI1PK", "alert-rules")
        .with("GSI1SK", "w#2NBs0sLBnJxEcoDLgVnQdJkhEgV")
        .with("rule#far", rule(far))
        .with("rule#late", rule(late))
        .with("rule#many", rule(many))
        .with("webhook#chat", chat);
    let read = Stored::from_item(&stored).unwrap();
    assert_eq!(read.webhooks["chat"].format, crate::WebhookFormat::Slack);
    assert!(matches!(read.rules["far"].scope, super::Scope::Live { .. }));
    assert_eq!(read.rules["late"].scope, super::Scope::Release("v1".into()));
    let tag = Some(("shop".to_owned(), "a".to_owned()));
    let counted = super::CountOf { kind: event::Kind::Predictions, tag };
    assert_eq!(read.rules["many"].watched, Watched::Count(counted));
    assert_eq!(read.to_item(&workspace).unwrap(), stored);
    assert!(Stored::from_item(&stored.with("v", 2)).is_err());
}
