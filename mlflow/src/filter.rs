//! MLflow's filter language: comparisons joined by `AND`, such as `metrics.loss < 0.5 AND params."depth" = '6'`.

use std::{cmp::Ordering, collections::BTreeSet, fmt};

use regex::Regex;
use sqlparser::{
    dialect::Dialect,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use crate::answer::{Answer, Failure};

/// Maximum bytes of a filter or of a sort order, and maximum number of comparisons or sort keys in it: each is
/// evaluated for every run.
const MAX_FILTER_BYTES: usize = 64 * 1024;
const MAX_COMPARISONS: usize = 100;

/// Maximum letters of a pattern of LIKE and ILIKE.
const MAX_PATTERN: usize = 1_000;

/// Names as MLflow writes them: with slashes and dashes, or in double quotes or backticks.
#[derive(Debug)]
struct Names;

impl Dialect for Names {
    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        matches!(letter, '"' | '`')
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        letter.is_alphabetic() || letter == '_'
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        letter.is_alphanumeric() || "_-/:$".contains(letter)
    }
}

/// Creates the error of an invalid filter or order.
fn wrong(why: impl fmt::Display) -> Failure {
    Failure::invalid(format!("Invalid filter or order: {why}"))
}

impl From<ParserError> for Failure {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::ParserError(why) | ParserError::TokenizerError(why) => wrong(why),
            ParserError::RecursionLimitExceeded => wrong(error),
        }
    }
}

/// An item that a filter is evaluated for.
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
#[derive(Clone, Debug)]
struct Field {
    of: &'static str,
    name: String,
    is_number: bool,
}

/// Predicate of a comparison: takes the order of the value relative to the operand.
type Holds = fn(Option<Ordering>) -> bool;

#[derive(Clone, Debug)]
enum Test {
    Number(Holds, f64),
    Text(Holds, String),
    Like(Pattern),
    In(BTreeSet<String>, bool),
    IsNull(bool),
}

/// The pattern of LIKE, or, in lower case, of ILIKE.
#[derive(Clone, Debug)]
struct Pattern {
    pattern: Regex,
    keeps_case: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Filter(Vec<(Field, Test)>);

/// A sort order of results.
#[derive(Clone, Debug)]
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
    fn parse(parser: &mut Parser<'_>, known: &Attributes) -> Answer<Self> {
        let mut of = "attributes".to_owned();
        let mut name = parser.parse_identifier()?.value;
        if parser.consume_token(&Token::Period) {
            of = std::mem::replace(&mut name, parser.parse_identifier()?.value);
            while parser.consume_token(&Token::Period) {
                name = format!("{name}.{}", parser.parse_identifier()?.value);
            }
        }
        let of = match of.as_str() {
            "metrics" | "metric" => "metrics",
            "params" | "param" | "parameters" | "parameter" => "params",
            "tags" | "tag" => "tags",
            "attributes" | "attribute" | "attr" | "run" => "attributes",
            "datasets" | "dataset" if !known.datasets.is_empty() => "datasets",
            other => {
                let datasets = if known.datasets.is_empty() { "" } else { ", datasets" };
                return Err(wrong(format!(
                    "`{other}` is none of metrics, params, tags{datasets} and attributes"
                )));
            }
        };
        let is_in = |names: &[&str]| of == "attributes" && names.contains(&name.as_str());
        let is_number = of == "metrics" || is_in(known.numbers);
        if of == "attributes" && !is_number && !is_in(known.texts) {
            let all = [known.numbers, known.texts].concat().join(", ");
            return Err(wrong(format!("`{name}` is no attribute; there are {all}")));
        }
        if of == "datasets" && !known.datasets.contains(&name.as_str()) {
            let all = known.datasets.join(", ");
            return Err(wrong(format!("`{name}` is nothing that datasets are searched by; there are {all}")));
        }
        Ok(Self { of, name, is_number })
    }
}

/// Begins to read a filter or an order, unless it is too long.
fn parser(text: &str) -> Answer<Parser<'static>> {
    match text.len() {
        ..=MAX_FILTER_BYTES => Ok(Parser::new(&Names).try_with_sql(text)?),
        bytes => Err(wrong(format!("it has {bytes} bytes; at most {MAX_FILTER_BYTES} are taken"))),
    }
}

fn is_at_end(parser: &Parser<'_>) -> bool {
    parser.peek_token_ref().token == Token::EOF
}

fn comparison(parser: &mut Parser<'_>) -> Answer<Holds> {
    let sign = parser.next_token();
    Ok(match sign.token {
        Token::Eq => |order| order == Some(Ordering::Equal),
        Token::Neq => |order| order != Some(Ordering::Equal),
        Token::Lt => |order| order == Some(Ordering::Less),
        Token::LtEq => |order| order.is_some_and(Ordering::is_le),
        Token::Gt => |order| order == Some(Ordering::Greater),
        Token::GtEq => |order| order.is_some_and(Ordering::is_ge),
        _ => parser.expected("a comparison", sign)?,
    })
}

fn number(parser: &mut Parser<'_>) -> Answer<f64> {
    let sign = if parser.consume_token(&Token::Minus) { -1.0 } else { 1.0 };
    let number = parser.next_token();
    match &number.token {
        Token::Number(text, _) => text.parse().map(|number: f64| sign * number).map_err(wrong),
        _ => Ok(parser.expected("a number", number)?),
    }
}

impl Test {
    fn parse(parser: &mut Parser<'_>, field: &Field) -> Answer<Self> {
        if parser.parse_keyword(Keyword::IS) {
            let is_null = !parser.parse_keyword(Keyword::NOT);
            parser.expect_keyword(Keyword::NULL)?;
            return Ok(Self::IsNull(is_null));
        }
        if field.is_number {
            return Ok(Self::Number(comparison(parser)?, number(parser)?));
        }
        let is_not = parser.parse_keyword(Keyword::NOT);
        if is_not || parser.peek_keyword(Keyword::IN) {
            parser.expect_keyword(Keyword::IN)?;
            let list = |parser: &mut Parser<'_>| parser.parse_comma_separated(Parser::parse_literal_string);
            return Ok(Self::In(parser.parse_parenthesized(list)?.into_iter().collect(), !is_not));
        }
        if let Some(like) = parser.parse_one_of_keywords(&[Keyword::LIKE, Keyword::ILIKE]) {
            let keeps_case = like == Keyword::LIKE;
            return Ok(Self::Like(Pattern::new(&parser.parse_literal_string()?, keeps_case)?));
        }
        match parser.peek_token_ref().token {
            Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => Err(wrong(format!(
                "texts such as `{}` are compared by =, !=, LIKE, ILIKE and IN",
                field.name
            ))),
            _ => Ok(Self::Text(comparison(parser)?, parser.parse_literal_string()?)),
        }
    }

    /// Returns true if it holds for a text.
    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Text(holds, text) => holds(Some(value.cmp(text))),
            Self::Like(pattern) => pattern.matches(value),
            Self::In(texts, is_in) => texts.contains(value) == *is_in,
            Self::Number(..) | Self::IsNull(_) => false,
        }
    }
}

impl Filter {
    /// Parses a filter of items with these attributes.
    pub(crate) fn parse(text: &str, known: &Attributes) -> Answer<Self> {
        let (mut parser, mut all) = (parser(text)?, Vec::new());
        while !is_at_end(&parser) || !all.is_empty() {
            if all.len() == MAX_COMPARISONS {
                return Err(wrong(format!(
                    "it has more than {MAX_COMPARISONS} comparisons; name several values by IN"
                )));
            }
            let field = Field::parse(&mut parser, known)?;
            let test = Test::parse(&mut parser, &field)?;
            all.push((field, test));
            if is_at_end(&parser) {
                break;
            }
            parser.expect_keyword(Keyword::AND)?;
        }
        Ok(Self(all))
    }

    /// Returns true if all comparisons hold; if a name has several texts, each comparison for one of them.
    pub(crate) fn matches(&self, subject: &impl Subject) -> bool {
        self.0.iter().all(|(field, test)| match test {
            Test::Number(holds, number) => {
                let value = subject.number(field.of, &field.name);
                value.is_some_and(|value| holds(value.partial_cmp(number)))
            }
            Test::IsNull(is_null) if field.is_number => {
                subject.number(field.of, &field.name).is_none() == *is_null
            }
            Test::IsNull(is_null) => subject.texts(field.of, &field.name).is_empty() == *is_null,
            test => subject.texts(field.of, &field.name).iter().any(|value| test.holds(value)),
        })
    }
}

impl Pattern {
    /// Reads a pattern, in which `%` stands for any letters and `_` for one.
    fn new(text: &str, keeps_case: bool) -> Answer<Self> {
        let text = if keeps_case { text.to_owned() } else { text.to_lowercase() };
        let letters = text.chars().count();
        if letters > MAX_PATTERN {
            return Err(wrong(format!("a pattern has {letters} letters; at most {MAX_PATTERN} are taken")));
        }
        let pattern = regex::escape(&text).replace('%', ".*").replace('_', ".");
        Ok(Self { pattern: Regex::new(&format!("(?s)^{pattern}$")).map_err(wrong)?, keeps_case })
    }

    fn matches(&self, text: &str) -> bool {
        match self.keeps_case {
            true => self.pattern.is_match(text),
            false => self.pattern.is_match(&text.to_lowercase()),
        }
    }
}

impl Order {
    /// Parses orders, each such as `metrics.loss DESC`.
    pub(crate) fn parse_all(texts: &[&str], known: &Attributes) -> Answer<Vec<Self>> {
        match texts.len() {
            ..=MAX_COMPARISONS => texts.iter().map(|text| Self::parse(text, known)).collect(),
            many => Err(wrong(format!("there are {many} orders; at most {MAX_COMPARISONS} are taken"))),
        }
    }

    fn parse(text: &str, known: &Attributes) -> Answer<Self> {
        let mut parser = parser(text)?;
        let field = Field::parse(&mut parser, known)?;
        if field.of == "datasets" {
            return Err(wrong(format!(
                "`{text}`: there may be several datasets, so nothing is sorted by them"
            )));
        }
        let direction = parser.parse_one_of_keywords(&[Keyword::ASC, Keyword::DESC]);
        parser.expect_token(&Token::EOF)?;
        Ok(Self { field, is_descending: direction == Some(Keyword::DESC) })
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
    fn invalid_filters_are_refused() {
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
        for (filter, expected) in [
            ("metrics.loss > >", "Expected: a number, found: > at Line: 1, Column: 16"),
            ("metrics.loss = a.b", "Expected: a number, found: a at Line: 1, Column: 16"),
            ("params.depth = 6", "Expected: literal string, found: 6 at Line: 1, Column: 16"),
            ("'x' = 1", "`x` is no attribute; there are start_time, status"),
        ] {
            assert_eq!(told(filter), format!("Invalid filter or order: {expected}"));
        }
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
