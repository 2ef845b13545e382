//! MLflow's language of filters: comparisons joined by `AND`, such as `metrics.loss < 0.5 AND params."depth" = '6'`.

use std::{cmp::Ordering, collections::BTreeSet};

use crate::{
    answer::Answer,
    tokens::{Token, tokens, wrong},
};

/// Maximum bytes of a filter or an order, and maximum number of comparisons or orders in it: each is tried on every run.
const MAX_FILTER_BYTES: usize = 64 * 1024;
const MAX_COMPARISONS: usize = 100;

/// Maximum letters of a pattern of LIKE and ILIKE.
const MAX_PATTERN: usize = 1_000;

/// An item that a filter is tried on.
pub(crate) trait Subject {
    /// Returns a text: of `params`, `tags` or `attributes`.
    fn text(&self, of: &str, name: &str) -> Option<String>;
    /// Returns a number: of `metrics` or `attributes`.
    fn number(&self, of: &str, name: &str) -> Option<f64>;
    /// Returns all texts of a name that may have several: of `datasets`.
    fn texts(&self, of: &str, name: &str) -> Vec<String> {
        self.text(of, name).into_iter().collect()
    }
}

/// The attributes by which items are searched and sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// The attributes that are numbers.
    pub(crate) numbers: &'static [&'static str],
    /// The attributes that are texts.
    pub(crate) texts: &'static [&'static str],
    /// The attributes of its datasets, if it has any.
    pub(crate) datasets: &'static [&'static str],
}

/// The subject of a comparison: metrics, params, tags, attributes or datasets, and the name there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    of: &'static str,
    name: String,
    is_number: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Number(Comparison, f64),
    Text(Comparison, String),
    Like(Pattern),
    In(BTreeSet<String>, bool),
    IsNull(bool),
}

/// The pattern of LIKE, or, in lower case, of ILIKE.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    letters: Vec<char>,
    keeps_case: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "=" => Self::Equal,
            "!=" => Self::Unequal,
            "<" => Self::Less,
            "<=" => Self::AtMost,
            ">" => Self::Greater,
            ">=" => Self::AtLeast,
            _ => return None,
        })
    }

    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Unequal => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }
}

impl Test {
    /// Returns true if it holds for a text.
    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Text(comparison, text) => comparison.holds(Some(value.cmp(text))),
            Self::Like(pattern) => pattern.matches(value),
            Self::In(texts, is_in) => texts.contains(value) == *is_in,
            Self::Number(..) | Self::IsNull(_) => false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter(Vec<(Field, Test)>);

/// A sort order of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    field: Field,
    is_descending: bool,
}

/// The sort key of an item in one order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Key {
    /// A number, if there is one.
    Number(Option<f64>),
    /// A text, if there is one.
    Text(Option<String>),
}

impl Field {
    fn parse(parts: &[String], known: &Attributes) -> Answer<Self> {
        let (of, name) = match parts {
            [name] => ("attributes", name.clone()),
            [of, name @ ..] => (of.as_str(), name.join(".")),
            [] => return Err(wrong("a name is missing")),
        };
        let of = match of {
            "metrics" | "metric" => "metrics",
            "params" | "param" | "parameters" | "parameter" => "params",
            "tags" | "tag" => "tags",
            "attributes" | "attribute" | "attr" | "run" => "attributes",
            "datasets" | "dataset" if !known.datasets.is_empty() => "datasets",
            other => {
                let datasets = if known.datasets.is_empty() { "" } else { ", datasets" };
                return Err(wrong(&format!(
                    "`{other}` is none of metrics, params, tags{datasets} and attributes"
                )));
            }
        };
        let is_in = |names: &[&str]| of == "attributes" && names.contains(&name.as_str());
        let is_number = of == "metrics" || is_in(known.numbers);
        if of == "attributes" && !is_number && !is_in(known.texts) {
            let all = [known.numbers, known.texts].concat().join(", ");
            return Err(wrong(&format!("`{name}` is no attribute; there are {all}")));
        }
        if of == "datasets" && !known.datasets.contains(&name.as_str()) {
            let all = known.datasets.join(", ");
            return Err(wrong(&format!(
                "`{name}` is nothing that datasets are searched by; there are {all}"
            )));
        }
        Ok(Self { of, name, is_number })
    }
}

/// Reads tokens one after the other.
struct Reader<'a> {
    tokens: std::iter::Peekable<std::slice::Iter<'a, Token>>,
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Answer<&'a Token> {
        self.tokens.next().ok_or_else(|| wrong(&format!("`{}` ends too early", self.text)))
    }

    fn takes(&mut self, keyword: &str) -> bool {
        self.tokens.next_if(|token| token.is(keyword)).is_some()
    }

    fn word(&mut self) -> Answer<&'a [String]> {
        match self.next()? {
            Token::Word(parts) => Ok(parts),
            other => Err(wrong(&format!("{other} is no name in `{}`", self.text))),
        }
    }

    fn string(&mut self) -> Answer<String> {
        match self.next()? {
            Token::Text(text) => Ok(text.clone()),
            // MLflow takes double quotes around values as well.
            Token::Word(parts) if parts.len() == 1 => Ok(parts[0].clone()),
            other => Err(wrong(&format!("{other} should be a text in quotes"))),
        }
    }

    fn list(&mut self) -> Answer<BTreeSet<String>> {
        if !self.next()?.is_sign("(") {
            return Err(wrong("IN takes a list in parentheses"));
        }
        let mut all = BTreeSet::from([self.string()?]);
        loop {
            match self.next()? {
                sign if sign.is_sign(",") => _ = all.insert(self.string()?),
                sign if sign.is_sign(")") => return Ok(all),
                other => return Err(wrong(&format!("{other} is neither a comma nor the end of a list"))),
            }
        }
    }

    fn test(&mut self, field: &Field) -> Answer<Test> {
        if self.takes("IS") {
            let is_null = !self.takes("NOT");
            return match self.takes("NULL") {
                true => Ok(Test::IsNull(is_null)),
                false => Err(wrong("IS takes NULL or NOT NULL")),
            };
        }
        let is_not = self.takes("NOT");
        if self.takes("IN") {
            return Ok(Test::In(self.list()?, !is_not));
        }
        if is_not {
            return Err(wrong("NOT takes IN"));
        }
        for (keyword, keeps_case) in [("LIKE", true), ("ILIKE", false)] {
            if self.takes(keyword) {
                return Ok(Test::Like(Pattern::new(&self.string()?, keeps_case)?));
            }
        }
        let comparison = match self.next()? {
            Token::Sign(sign) => {
                Comparison::parse(sign).ok_or_else(|| wrong(&format!("`{sign}` is no comparison")))?
            }
            other => return Err(wrong(&format!("{other} is no comparison"))),
        };
        if !field.is_number {
            return match comparison {
                Comparison::Equal | Comparison::Unequal => Ok(Test::Text(comparison, self.string()?)),
                _ => Err(wrong(&format!(
                    "texts such as `{}` are compared by =, !=, LIKE, ILIKE and IN",
                    field.name
                ))),
            };
        }
        match self.next()? {
            Token::Number(number) => Ok(Test::Number(comparison, *number)),
            other => Err(wrong(&format!("{other} should be a number"))),
        }
    }
}

impl Filter {
    /// Parses a filter of items with these attributes.
    pub(crate) fn parse(text: &str, known: &Attributes) -> Answer<Self> {
        let tokens = tokens_of(text)?;
        if tokens.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader { tokens: tokens.iter().peekable(), text };
        let mut all = Vec::new();
        loop {
            if all.len() == MAX_COMPARISONS {
                return Err(wrong(&format!(
                    "it has more than {MAX_COMPARISONS} comparisons; name several values by IN"
                )));
            }
            let field = Field::parse(reader.word()?, known)?;
            let test = reader.test(&field)?;
            all.push((field, test));
            if reader.tokens.peek().is_none() {
                return Ok(Self(all));
            }
            if !reader.takes("AND") {
                return Err(wrong(&format!("comparisons are joined by AND only: {text}")));
            }
        }
    }

    /// Returns true if all comparisons hold; if a name has several texts, each comparison for one of them.
    pub(crate) fn matches(&self, subject: &impl Subject) -> bool {
        self.0.iter().all(|(field, test)| {
            if field.is_number {
                let value = subject.number(field.of, &field.name);
                return match test {
                    Test::IsNull(is_null) => value.is_none() == *is_null,
                    Test::Number(comparison, number) => {
                        value.is_some_and(|value| comparison.holds(value.partial_cmp(number)))
                    }
                    _ => false,
                };
            }
            let values = subject.texts(field.of, &field.name);
            match test {
                Test::IsNull(is_null) => values.is_empty() == *is_null,
                test => values.iter().any(|value| test.holds(value)),
            }
        })
    }
}

/// Splits a filter or an order into tokens, unless it is too long.
fn tokens_of(text: &str) -> Answer<Vec<Token>> {
    match text.len() {
        ..=MAX_FILTER_BYTES => tokens(text),
        bytes => Err(wrong(&format!("it has {bytes} bytes; at most {MAX_FILTER_BYTES} are taken"))),
    }
}

impl Pattern {
    fn new(text: &str, keeps_case: bool) -> Answer<Self> {
        let letters: Vec<char> = match keeps_case {
            true => text.chars().collect(),
            false => text.to_lowercase().chars().collect(),
        };
        match letters.len() {
            ..=MAX_PATTERN => Ok(Self { letters, keeps_case }),
            long => Err(wrong(&format!("a pattern has {long} letters; at most {MAX_PATTERN} are taken"))),
        }
    }

    /// Returns true if a text matches the pattern, in which `%` stands for any letters and `_` for one.
    fn matches(&self, text: &str) -> bool {
        let pattern = &self.letters;
        let text: Vec<char> = match self.keeps_case {
            true => text.chars().collect(),
            false => text.to_lowercase().chars().collect(),
        };
        let (mut at, mut of) = (0, 0);
        // The place of the last `%`, and the end of the text that it has consumed.
        let mut wild = None;
        while at < text.len() {
            match pattern.get(of) {
                Some('%') => {
                    wild = Some((of, at));
                    of += 1;
                }
                Some(letter) if *letter == '_' || *letter == text[at] => (at, of) = (at + 1, of + 1),
                _ => match wild {
                    Some((percent, taken)) => {
                        wild = Some((percent, taken + 1));
                        (at, of) = (taken + 1, percent + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[of..].iter().all(|letter| *letter == '%')
    }
}

impl Order {
    /// Parses orders, each such as `metrics.loss DESC`.
    pub(crate) fn parse_all(texts: &[&str], known: &Attributes) -> Answer<Vec<Self>> {
        match texts.len() {
            ..=MAX_COMPARISONS => texts.iter().map(|text| Self::parse(text, known)).collect(),
            many => Err(wrong(&format!("there are {many} orders; at most {MAX_COMPARISONS} are taken"))),
        }
    }

    fn parse(text: &str, known: &Attributes) -> Answer<Self> {
        let tokens = tokens_of(text)?;
        let mut reader = Reader { tokens: tokens.iter().peekable(), text };
        let field = Field::parse(reader.word()?, known)?;
        if field.of == "datasets" {
            return Err(wrong(&format!(
                "`{text}`: there may be several datasets, so nothing is sorted by them"
            )));
        }
        let is_descending = reader.takes("DESC");
        if !is_descending {
            reader.takes("ASC");
        }
        match reader.tokens.next() {
            None => Ok(Self { field, is_descending }),
            Some(other) => Err(wrong(&format!("{other} in `{text}` is neither ASC nor DESC"))),
        }
    }

    /// Compares two items by several orders.
    pub(crate) fn compare_by(all: &[Self], a: &impl Subject, b: &impl Subject) -> Ordering {
        let by_each = all.iter().map(|order| order.compare(&order.key(a), &order.key(b)));
        by_each.reduce(Ordering::then).unwrap_or(Ordering::Equal)
    }

    /// Returns the sort key of an item.
    pub(crate) fn key(&self, subject: &impl Subject) -> Key {
        let (of, name) = (self.field.of, self.field.name.as_str());
        match self.field.is_number {
            true => Key::Number(subject.number(of, name)),
            false => Key::Text(subject.text(of, name)),
        }
    }

    /// Compares two sort keys. A missing value comes last, and NaN before it.
    pub(crate) fn compare(&self, a: &Key, b: &Key) -> Ordering {
        let turned = |order: Ordering| if self.is_descending { order.reverse() } else { order };
        match (a, b) {
            (Key::Number(a), Key::Number(b)) => {
                let rank = |value: Option<f64>| value.map_or(2, |value| u8::from(value.is_nan()));
                let by_value = || a.zip(*b).map_or(Ordering::Equal, |(a, b)| turned(a.total_cmp(&b)));
                rank(*a).cmp(&rank(*b)).then_with(by_value)
            }
            (Key::Text(Some(a)), Key::Text(Some(b))) => turned(a.cmp(b)),
            (a, b) => a.is_nothing().cmp(&b.is_nothing()),
        }
    }
}

impl Key {
    /// Returns its bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let text = if let Self::Text(Some(text)) = self { text.len() } else { 0 };
        size_of::<Self>() + text
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Self::Number(None) | Self::Text(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Attributes =
        Attributes { numbers: &["start_time"], texts: &["status"], datasets: &["name", "digest"] };

    struct One;

    impl Subject for One {
        fn text(&self, of: &str, name: &str) -> Option<String> {
            let text = match (of, name) {
                ("params", "depth") => "6",
                ("tags", "a b") => "It's",
                ("attributes", "status") => "FINISHED",
                _ => return None,
            };
            Some(text.to_owned())
        }

        fn number(&self, of: &str, name: &str) -> Option<f64> {
            match (of, name) {
                ("metrics", "loss") => Some(0.5),
                ("metrics", "val/loss.mean") => Some(-2.0),
                ("metrics", "gap") => Some(f64::NAN),
                ("attributes", "start_time") => Some(1_000.0),
                _ => None,
            }
        }

        fn texts(&self, of: &str, name: &str) -> Vec<String> {
            match (of, name) {
                ("datasets", "name") => ["loans", "cards"].map(str::to_owned).into(),
                _ => self.text(of, name).into_iter().collect(),
            }
        }
    }

    fn is_one(filter: &str) -> bool {
        Filter::parse(filter, &KNOWN).unwrap().matches(&One)
    }

    #[test]
    fn filters_choose_as_mlflow_does() {
        for filter in [
            "",
            "metrics.loss = 0.5",
            "metrics.loss<1 and metrics.`val/loss.mean` >= -2e0",
            "metrics.val/loss.mean = -2",
            "params.depth = '6' AND tags.\"a b\" = 'It''s'",
            "attributes.status IN ('FAILED', 'FINISHED') AND attr.start_time > 999",
            "status != 'RUNNING' AND start_time <= 1000",
            "params.depth LIKE '_' AND attributes.status ILIKE 'fin%d'",
            "attributes.status NOT IN ('RUNNING')",
            "params.nothing IS NULL AND params.depth IS NOT NULL AND metrics.none IS NULL",
            "metrics.gap != 1",
            "params.depth = \"6\"",
            "datasets.name = 'loans' AND dataset.name = 'cards' AND dataset.name != 'cards'",
            "dataset.name LIKE 'lo%' AND dataset.digest IS NULL AND dataset.name IN ('x', 'cards')",
        ] {
            assert!(is_one(filter), "{filter}");
        }
        for filter in [
            "metrics.loss > 0.5",
            "metrics.none < 1",
            "metrics.gap < 1",
            "params.depth = '7'",
            "params.nothing != 'x'",
            "params.depth LIKE '6_'",
            "attributes.status LIKE 'fin%'",
            "tags.`a b` = 'x' AND metrics.loss = 0.5",
            "dataset.name = 'x'",
            "dataset.digest != 'x'",
            "dataset.name IS NULL",
        ] {
            assert!(!is_one(filter), "{filter}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for filter in [
            "metrics.loss",
            "metrics.loss = 'x'",
            "metrics.loss = 1 OR metrics.loss = 2",
            "params.depth > '5'",
            "loss.x = 1",
            "foo = '1'",
            "attributes.foo IS NULL",
            "dataset.source = 'x'",
            "datasets.name > 'x'",
            "params.depth = 'x",
            "params.depth IN ()",
            "; drop",
            "metrics.loss = 1 AND",
            "= 1",
        ] {
            let refused = Filter::parse(filter, &KNOWN).unwrap_err();
            assert_eq!(refused.code, "INVALID_PARAMETER_VALUE", "{filter}");
        }
        let told = |filter: &str| Filter::parse(filter, &KNOWN).unwrap_err().message;
        let without = Filter::parse("dataset.name = 'x'", &Attributes { datasets: &[], ..KNOWN });
        let none = "Invalid filter or order: `dataset` is none of metrics, params, tags and attributes";
        assert_eq!(without.unwrap_err().message, none);
        assert_eq!(told("metrics.loss > >"), "Invalid filter or order: `>` should be a number");
        assert_eq!(told("metrics.loss = a.b"), "Invalid filter or order: `a.b` should be a number");
        assert_eq!(told("params.depth = 6"), "Invalid filter or order: `6` should be a text in quotes");
        assert_eq!(told("'x' = 1"), "Invalid filter or order: 'x' is no name in `'x' = 1`");
        for order in ["metrics.loss SIDEWAYS", "foo", "attributes.foo DESC", "loss.x ASC", "dataset.name"] {
            let refused = Order::parse(order, &KNOWN).unwrap_err();
            assert_eq!(refused.code, "INVALID_PARAMETER_VALUE", "{order}");
        }
    }

    #[test]
    fn filters_are_bounded() {
        let joined = |count: usize| vec!["metrics.loss > 0"; count].join(" AND ");
        assert!(is_one(&joined(MAX_COMPARISONS)));
        let values: Vec<String> = (0..9_000).map(|value| format!("'{value}'")).collect();
        assert!(is_one(&format!("params.depth IN ({})", values.join(","))));
        for (filter, told) in [
            (joined(MAX_COMPARISONS + 1), "more than 100 comparisons"),
            (joined(80_000), "at most 65536"),
            (format!("params.depth LIKE '{}'", "%".repeat(MAX_PATTERN + 1)), "a pattern has 1001 letters"),
            (format!("metrics.loss > '{}'", "x".repeat(60_000)), "…"),
        ] {
            let refused = Filter::parse(&filter, &KNOWN).unwrap_err();
            assert!(refused.message.contains(told) && refused.message.len() < 4_100, "{}", refused.message);
        }
        let orders = vec!["metrics.loss"; MAX_COMPARISONS + 1];
        assert!(Order::parse_all(&orders, &KNOWN).unwrap_err().message.contains("at most 100"));
    }

    #[test]
    fn orders_put_what_is_nothing_last() {
        struct Number(Option<f64>);
        impl Subject for Number {
            fn text(&self, _: &str, _: &str) -> Option<String> {
                self.0.map(|number| number.to_string())
            }
            fn number(&self, _: &str, _: &str) -> Option<f64> {
                self.0
            }
        }
        for (order, expected) in [
            ("metrics.loss", "[Some(1.0), Some(2.0), Some(NaN), None]"),
            ("metrics.loss DESC", "[Some(2.0), Some(1.0), Some(NaN), None]"),
            ("params.loss ASC", "[Some(1.0), Some(2.0), Some(NaN), None]"),
        ] {
            let order = Order::parse(order, &KNOWN).unwrap();
            let mut all = [None, Some(2.0), Some(f64::NAN), Some(1.0)].map(Number);
            all.sort_by(|a, b| order.compare(&order.key(a), &order.key(b)));
            assert_eq!(format!("{:?}", all.map(|one| one.0)), expected);
        }
    }
}
