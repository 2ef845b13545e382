//! Texts for people about a rule that crosses.

use fold::alert::{Crossing, JudgedDay, Test};

use super::{AlertRule, Scope, Watched};

impl AlertRule {
    /// Text about a day on which the rule crossed.
    pub fn says(&self, day: &JudgedDay, crossing: Crossing) -> String {
        let of = self.of_what();
        let number = day.reading.value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        let what = match &self.watched {
            Watched::Figure(_)
            | Watched::Count(_)
            | Watched::Column(_)
            | Watched::Drift(_)
            | Watched::Lag(_) => self.watched.named(),
            Watched::Missing(kind, _) => {
                let by = self.body.by.as_deref().unwrap_or("24:00");
                let came = match self.scope {
                    Scope::Workspace => format!("{} of {} had come by {by}", kind.name(), day.day),
                    // The time at which it came is not known.
                    _ if crossing == Crossing::Resolves => {
                        format!("{}{of} had come on {}", kind.name(), day.day)
                    }
                    _ => format!("{}{of} had come on {} by {by}", kind.name(), day.day),
                };
                return match crossing {
                    Crossing::Fires => format!("no {came}"),
                    Crossing::Resolves => format!("{came} again"),
                };
            }
        };
        let why = match (crossing, self.rule.test, day.measured) {
            (Crossing::Resolves, ..) => " again".to_owned(),
            (Crossing::Fires, Test::Above(limit), _) => format!(", above {limit}"),
            (Crossing::Fires, Test::Below(limit), _) => format!(", below {limit}"),
            (Crossing::Fires, Test::Moved(_), measured) => {
                let deviations = measured.unwrap_or_default();
                format!(", {deviations:.1} deviations from the {} days before", self.rule.window_days)
            }
        };
        format!("{what}{of} on {} is {number}{why}", day.day)
    }

    /// Scope of the rule in words.
    fn of_what(&self) -> String {
        match &self.scope {
            Scope::Workspace => String::new(),
            Scope::Release(release) => format!(" of {release}"),
            Scope::Live { model, environment } => format!(" of {model} in {environment}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Timestamp;
    use fold::alert::{Reading, Standing};

    use super::*;
    use crate::AlertRuleBody;

    fn says(body: AlertRuleBody, value: f64, measured: f64, crossing: Crossing) -> String {
        let rule = AlertRule::of(AlertRuleBody { name: "x".into(), ..body }, Timestamp::default()).unwrap();
        let day = JudgedDay {
            day: "2026-06-03".parse().unwrap(),
            reading: Reading { value: Some(value), n: None },
            measured: Some(measured),
            standing: Standing::default(),
            crossing: Some(crossing),
        };
        rule.says(&day, crossing)
    }

    #[test]
    fn alert_text_names_value_and_threshold() {
        let text = |text: &str| Some(text.to_owned());
        let figure = AlertRuleBody {
            figure: text("auc"),
            release: text("v1"),
            below: Some(0.7),
            ..Default::default()
        };
        assert_eq!(
            says(figure.clone(), 0.65, 0.65, Crossing::Fires),
            "auc of v1 on 2026-06-03 is 0.65, below 0.7"
        );
        assert_eq!(says(figure, 0.75, 0.75, Crossing::Resolves), "auc of v1 on 2026-06-03 is 0.75 again");
        let moved = AlertRuleBody { count: text("predictions"), moved: Some(4.0), ..Default::default() };
        let told = "the number of predictions on 2026-06-03 is 3, -7.2 deviations from the 14 days before";
        assert_eq!(says(moved, 3.0, -7.2, Crossing::Fires), told);
        let late = AlertRuleBody { missing: text("outcomes"), by: text("06:00"), ..Default::default() };
        assert_eq!(
            says(late.clone(), 1.0, 1.0, Crossing::Fires),
            "no outcomes of 2026-06-03 had come by 06:00"
        );
        let of_v1 = AlertRuleBody { release: text("v1"), missing: text("predictions"), ..late.clone() };
        assert_eq!(
            says(of_v1, 1.0, 1.0, Crossing::Fires),
            "no predictions of v1 had come on 2026-06-03 by 06:00"
        );
        assert_eq!(
            says(late, 0.0, 0.0, Crossing::Resolves),
            "outcomes of 2026-06-03 had come by 06:00 again"
        );
    }
}
