//! What a webhook says of a crossing in words of its own.

use event::{Error, Id, Result};
use fold::alert::Crossing;

use super::CrossedRule;

/// The most bytes of a template.
pub const MAX_TEMPLATE_BYTES: usize = 1_000;

/// The most bytes of what a webhook says, as Slack writes it. Of a longer text Slack shows no more.
const MAX_TOLD_BYTES: usize = 4_000;

/// What a webhook says that has no template.
const USUAL: &str = "{sign} *{rule}* {what} in {path}: {text}";

/// What stands behind a text that was cut.
const CUT: &str = "…";

/// A value that a template may name.
type Placeholder = (&'static str, fn(&Told<'_>) -> String);

/// The crossing that is told of, and where.
struct Told<'a> {
    workspace: &'a Id,
    path: &'a str,
    crossed: &'a CrossedRule,
}

const PLACEHOLDERS: [Placeholder; 10] = [
    ("rule", |told| told.crossed.rule.clone()),
    ("what", |told| told.crossed.crossing.name().to_owned()),
    ("path", |told| told.path.to_owned()),
    ("text", |told| told.crossed.text.clone()),
    ("sign", |told| match told.crossed.crossing {
        Crossing::Fires => ":rotating_light:".to_owned(),
        Crossing::Resolves => ":white_check_mark:".to_owned(),
    }),
    ("day", |told| told.crossed.day.to_string()),
    ("at", |told| told.crossed.at.to_string()),
    ("value", |told| number(told.crossed.value)),
    ("measured", |told| number(told.crossed.measured)),
    ("workspace", |told| told.workspace.to_string()),
];

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

/// A part of a template.
enum Part<'a> {
    /// As it stands there.
    Fixed(&'a str),
    /// A value.
    Of(Placeholder),
}

/// Reads a template. `{{` and `}}` stand for braces.
fn parts(template: &str) -> Result<Vec<Part<'_>>> {
    let (mut parts, mut rest) = (Vec::new(), template);
    while let Some(at) = rest.find(['{', '}']) {
        parts.push(Part::Fixed(&rest[..at]));
        let from = &rest[at..];
        if from.starts_with("{{") || from.starts_with("}}") {
            parts.push(Part::Fixed(&from[..1]));
            rest = &from[2..];
            continue;
        }
        let name = from.strip_prefix('{').and_then(|from| from.split_once('}'));
        let (name, after) = name.ok_or_else(|| {
            Error::invalid("has a brace without its other one; write {{ and }} for braces that are text")
        })?;
        let known = PLACEHOLDERS.into_iter().find(|(known, _)| *known == name);
        parts.push(Part::Of(known.ok_or_else(|| {
            let known = PLACEHOLDERS.map(|(name, _)| format!("{{{name}}}")).join(", ");
            Error::invalid(format!("names {{{name}}}, which is none of {known}"))
        })?));
        rest = after;
    }
    parts.push(Part::Fixed(rest));
    Ok(parts)
}

/// Checks a template.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(template: &str) -> Result<()> {
    if !(1..=MAX_TEMPLATE_BYTES).contains(&template.len()) {
        return Err(Error::invalid(format!("has 1 to {MAX_TEMPLATE_BYTES} bytes")));
    }
    parts(template).map(|_| ())
}

/// What a template, or else the usual words, tells of a crossing, as Slack wants it written: a value is no markup, the words of the template
/// may be.
pub(super) fn told(template: Option<&str>, (workspace, path): (&Id, &str), crossed: &CrossedRule) -> String {
    // It was checked when it was set.
    let parts = template.and_then(|template| parts(template).ok()).or_else(|| parts(USUAL).ok());
    let told = Told { workspace, path, crossed };
    let mut text = String::new();
    for part in parts.unwrap_or_default() {
        let is_whole = match part {
            Part::Fixed(fixed) => add(&mut text, fixed.chars().map(|one| one.to_string())),
            Part::Of((_, value)) => add(&mut text, value(&told).chars().map(escaped)),
        };
        if !is_whole {
            text.push_str(CUT);
            break;
        }
    }
    text
}

/// Adds signs as far as there is room for them; whether there was.
fn add(text: &mut String, signs: impl Iterator<Item = String>) -> bool {
    for sign in signs {
        if text.len() + sign.len() + CUT.len() > MAX_TOLD_BYTES {
            return false;
        }
        text.push_str(&sign);
    }
    true
}

/// A sign of a text, where Slack would take it for markup.
pub(super) fn escaped(sign: char) -> String {
    match sign {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use event::{Day, Timestamp};

    use super::*;

    fn crossed(text: &str) -> CrossedRule {
        let day: Day = "2026-06-03".parse().unwrap();
        CrossedRule {
            rule: "few".into(),
            created_at: day.start(),
            day,
            crossing: Crossing::Resolves,
            at: Timestamp::parse("2026-06-04T00:01:00Z").unwrap(),
            measured: None,
            value: Some(1.5),
            cut: [("p/00".to_owned(), 7)].into(),
            text: text.into(),
        }
    }

    fn says(template: Option<&str>, text: &str) -> String {
        let id = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        told(template, (&id, "credit/prod"), &crossed(text))
    }

    #[test]
    fn a_template_has_values_in_their_places() {
        let all = "{rule}|{what}|{path}|{text}|{sign}|{day}|{at}|{value}|{measured}|{workspace}|{{rule}}";
        check(all).unwrap();
        let wanted = "few|resolves|credit/prod|x|:white_check_mark:|2026-06-03|2026-06-04T00:01:00Z|1.5|unknown|2NBs0sLBnJxEcoDLgVnQdJkhEgV|{rule}";
        assert_eq!(says(Some(all), "x"), wanted);
        assert_eq!(says(None, "x"), ":white_check_mark: *few* resolves in credit/prod: x");
    }

    #[test]
    fn a_value_is_no_markup_and_the_words_of_the_template_are() {
        assert_eq!(
            says(Some("<!here> {text} <https://a.example|look>"), "a < b & c > \"d\" <!channel>"),
            "<!here> a &lt; b &amp; c &gt; \"d\" &lt;!channel&gt; <https://a.example|look>"
        );
    }

    #[test]
    fn what_is_told_is_bounded_and_cut_between_signs() {
        let long = says(Some("{text}{text}"), &"<é".repeat(2_000));
        assert!(long.len() <= MAX_TOLD_BYTES && long.len() > MAX_TOLD_BYTES - 16, "{}", long.len());
        let whole = long.strip_suffix(CUT).unwrap();
        assert!(whole.ends_with("&lt;") || whole.ends_with('é'), "{whole}");
    }

    #[test]
    fn what_is_wrong_with_a_template_is_said() {
        for (template, why) in [
            ("{rul} fires", "names {rul}, which is none of {rule}, {what}, {path}, {text}"),
            ("{rule", "a brace without"),
            ("rule}", "a brace without"),
            ("", "has 1 to 1000 bytes"),
            (&*"x".repeat(1_001), "has 1 to 1000 bytes"),
        ] {
            let said = check(template).unwrap_err().to_string();
            assert!(said.contains(why), "{template}: {said}");
        }
    }
}
