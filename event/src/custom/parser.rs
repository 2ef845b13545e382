//! Parser of expressions, which checks names and types.

use std::mem;

use super::{
    Aggregate, AggregateOf, Expression, Formula, JoinedColumn, OUTCOME_COLUMNS, Value,
    expression::Step,
    functions::{
        AGGREGATES, BETWEEN, CASE, COMPARISON, COMPARISONS, COUNTED, FUNCTIONS, Function, IN, IS_NULL, NOT,
        OPERATORS, SECONDS, SIGNS, Type,
    },
};
use crate::{Kind, fields::FieldType, plain::nearest};

/// Maximum depth of nested parentheses and functions, which bounds the recursion of the parser.
const MAX_DEPTH: usize = 32;

/// The result, or an error message about the expression.
type Made<T> = Result<T, String>;

/// Parses the expression of a metric.
///
/// # Errors
/// The reason as a message.
pub(super) fn parse(text: &str) -> Made<Formula> {
    let mut parser = Parser { tokens: tokens(text)?, ..Parser::default() };
    let kind = parser.expression()?;
    if let Some(token) = parser.tokens.get(parser.at) {
        return Err(format!("`{token}` has no place after its end"));
    }
    if parser.aggregates.is_empty() {
        return Err(format!("it is no aggregate of rows; there are {}", aggregates().join(", ")));
    }
    kind.fits(Type::Number)?;
    let Parser { columns, aggregates, steps, .. } = parser;
    Ok(Formula { columns, aggregates, value: Expression(steps) })
}

fn aggregates() -> Vec<&'static str> {
    AGGREGATES.iter().map(|(name, _)| *name).collect()
}

/// Returns the names of all functions, aggregates first.
pub(super) fn functions() -> Vec<&'static str> {
    aggregates().into_iter().chain(FUNCTIONS.iter().map(|function| function.name)).collect()
}

/// Splits an expression into words, numbers, texts in their quotes, and signs.
fn tokens(text: &str) -> Made<Vec<&str>> {
    const SIGNS: [&str; 15] = ["<>", "!=", "<=", ">=", "(", ")", ",", "+", "-", "*", "/", "%", "=", "<", ">"];
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' | '"' => quoted(rest, first).ok_or_else(|| format!("a {first} has no end"))?,
            '0'..='9' | '.' => number(rest),
            _ if is_of_word(first) => rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len()),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => sign.len(),
                None => return Err(format!("`{first}` has no place in it")),
            },
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// Returns the length of a text in quotes, in which two quotes stand for one; `None` if it has no end.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut end = 1;
    loop {
        end += text[end..].find(quote)? + 1;
        if !text[end..].starts_with(quote) {
            return Some(end);
        }
        end += 1;
    }
}

/// Returns the length of a number.
fn number(text: &str) -> usize {
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let exponent = end + 1 + usize::from(text[end + 1..].starts_with(['+', '-']));
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    end
}

#[derive(Default)]
struct Parser<'t> {
    tokens: Vec<&'t str>,
    at: usize,
    depth: usize,
    /// True inside an aggregate, where the leaves are columns.
    is_of_row: bool,
    columns: Vec<JoinedColumn>,
    aggregates: Vec<Aggregate>,
    /// Steps of the aggregate, or of the formula around it.
    steps: Vec<Step>,
}

impl<'t> Parser<'t> {
    /// Returns the token after `ahead` others; an empty one at the end.
    fn token(&self, ahead: usize) -> &'t str {
        self.tokens.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn is(&self, ahead: usize, wanted: &str) -> bool {
        self.token(ahead).eq_ignore_ascii_case(wanted)
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let is_next = self.is(0, wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, wanted: &str) -> Made<()> {
        match self.token(0) {
            _ if self.takes(wanted) => Ok(()),
            "" => Err(format!("`{wanted}` is missing at its end")),
            token => Err(format!("`{token}` stands where `{wanted}` is needed")),
        }
    }

    fn constant(&mut self, value: Value<'static>, kind: Type) -> Type {
        self.steps.push(Step::Constant(value));
        kind
    }

    /// Calls a function of arguments of these types.
    fn call(&mut self, function: &Function, kinds: &[Type]) -> Made<Type> {
        let kind = kinds.iter().try_fold(function.takes, |common, kind| kind.fits(common))?;
        self.steps.push(Step::Call(function.operation, kinds.len()));
        Ok(if function.gives == Type::Any { kind } else { function.gives })
    }

    fn expression(&mut self) -> Made<Type> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH}"));
        }
        let kind = self.operators(0)?;
        self.depth -= 1;
        Ok(kind)
    }

    /// Parses operators of a level, and those that bind tighter.
    fn operators(&mut self, level: usize) -> Made<Type> {
        let operand = |parser: &mut Self| match level + 1 {
            COMPARISON => parser.negated(),
            level if level == OPERATORS.len() => parser.signed(),
            level => parser.operators(level),
        };
        let mut kind = operand(self)?;
        while let Some(operator) = OPERATORS[level].iter().find(|operator| self.takes(operator.name)) {
            let kinds = [kind, operand(self)?];
            let is_span = operator.name == "-" && kinds == [Type::Time; 2];
            kind = self.call(if is_span { &SECONDS } else { operator }, &kinds)?;
        }
        Ok(kind)
    }

    fn negated(&mut self) -> Made<Type> {
        let mut nots = 0;
        while self.takes(NOT.name) {
            nots += 1;
        }
        let kind = self.comparison()?;
        (0..nots).try_fold(kind, |kind, _| self.call(&NOT, &[kind]))
    }

    fn comparison(&mut self) -> Made<Type> {
        let kind = self.operators(COMPARISON)?;
        if let Some(operator) = COMPARISONS.iter().find(|operator| self.takes(operator.name)) {
            let other = self.operators(COMPARISON)?;
            return self.call(operator, &[kind, other]);
        }
        let mut is_not = self.is(0, NOT.name) && (self.is(1, IN.name) || self.is(1, BETWEEN.name));
        self.at += usize::from(is_not);
        let kind = if self.takes("is") {
            is_not = self.takes(NOT.name);
            self.needs("null")?;
            self.call(&IS_NULL, &[kind])?
        } else if self.takes(IN.name) {
            self.needs("(")?;
            let list = self.list()?;
            self.call(&IN, &[vec![kind], list].concat())?
        } else if self.takes(BETWEEN.name) {
            let low = self.operators(COMPARISON)?;
            self.needs("and")?;
            let high = self.operators(COMPARISON)?;
            self.call(&BETWEEN, &[kind, low, high])?
        } else {
            return Ok(kind);
        };
        if is_not { self.call(&NOT, &[kind]) } else { Ok(kind) }
    }

    fn signed(&mut self) -> Made<Type> {
        let mut signs = Vec::new();
        while let Some(sign) = SIGNS.iter().find(|sign| self.takes(sign.name)) {
            signs.push(sign);
        }
        let kind = self.primary()?;
        signs.iter().try_fold(kind, |kind, sign| self.call(sign, &[kind]))
    }

    fn primary(&mut self) -> Made<Type> {
        let token = self.token(0);
        self.at += 1;
        let unquoted = |quote: &str| token[1..token.len() - 1].replace(&quote.repeat(2), quote);
        match token.chars().next() {
            None => Err("it ends where a value is needed".into()),
            Some('\'') => {
                self.steps.push(Step::Text(unquoted("'")));
                Ok(Type::Text)
            }
            Some('"') => self.column(&unquoted("\"")),
            Some('0'..='9' | '.') => {
                let number = token.parse().ok().filter(|number: &f64| number.is_finite());
                let number = number.ok_or_else(|| format!("`{token}` is no number"))?;
                Ok(self.constant(Value::Number(number), Type::Number))
            }
            Some('(') => {
                let kind = self.expression()?;
                self.needs(")")?;
                Ok(kind)
            }
            Some('a'..='z' | 'A'..='Z' | '_') => match &*token.to_ascii_lowercase() {
                "null" => Ok(self.constant(Value::Null, Type::Any)),
                "true" => Ok(self.constant(Value::Truth(true), Type::Truth)),
                "false" => Ok(self.constant(Value::Truth(false), Type::Truth)),
                "case" => self.case(),
                name if self.takes("(") => self.function(name),
                _ => self.column(token),
            },
            Some(_) => Err(format!("`{token}` stands where a value is needed")),
        }
    }

    fn column(&mut self, name: &str) -> Made<Type> {
        let Some(column) = JoinedColumn::named(name) else {
            let outcome = OUTCOME_COLUMNS.map(|(name, ..)| name);
            let there = Kind::Predictions.lasting_are_called(&outcome);
            return Err(format!("there is no column `{name}`; there are {there}"));
        };
        if !self.is_of_row {
            return Err(format!("the column `{name}` stands outside of an aggregate"));
        }
        let kind = match column.kind {
            FieldType::Float => Type::Number,
            FieldType::Text => Type::Text,
            FieldType::Time => Type::Time,
        };
        let at = self.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        self.steps.push(Step::Leaf(at));
        Ok(kind)
    }

    /// Parses a list after its opening parenthesis.
    fn list(&mut self) -> Made<Vec<Type>> {
        let mut kinds = vec![self.expression()?];
        while self.takes(",") {
            kinds.push(self.expression()?);
        }
        self.needs(")")?;
        Ok(kinds)
    }

    /// Parses pairs of a condition and a value; without an operand a condition must equal true.
    fn case(&mut self) -> Made<Type> {
        let operand = match self.is(0, "when") {
            true => self.constant(Value::Truth(true), Type::Truth),
            false => self.expression()?,
        };
        let (mut count, mut kind) = (1, Type::Any);
        while self.takes("when") {
            self.expression()?.fits(operand)?;
            self.needs("then")?;
            kind = self.expression()?.fits(kind)?;
            count += 2;
        }
        if count == 1 {
            self.needs("when")?;
        }
        kind = match self.takes("else") {
            true => self.expression()?.fits(kind)?,
            false => self.constant(Value::Null, kind),
        };
        self.needs("end")?;
        self.steps.push(Step::Call(CASE, count + 1));
        Ok(kind)
    }

    fn function(&mut self, name: &str) -> Made<Type> {
        if let Some((_, of)) = AGGREGATES.iter().find(|(known, _)| *known == name) {
            return self.aggregate(name, *of);
        }
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            let there = match nearest(name, functions()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("there are {}", functions().join(", ")),
            };
            return Err(format!("there is no function `{name}`; {there}"));
        };
        let kinds = self.list()?;
        match function.count {
            Some(count) if count != kinds.len() => {
                Err(format!("`{name}` takes {count} values, not {}", kinds.len()))
            }
            _ => self.call(function, &kinds),
        }
    }

    /// Parses an aggregate after its opening parenthesis.
    fn aggregate(&mut self, name: &str, of: AggregateOf) -> Made<Type> {
        if self.is_of_row {
            return Err(format!("the aggregate `{name}` stands within another one"));
        }
        self.is_of_row = true;
        let formula = mem::take(&mut self.steps);
        let is_count = of == AggregateOf::Count;
        let kind = match is_count && self.takes("*") {
            true => self.constant(Value::Number(1.0), Type::Number),
            false => self.expression()?,
        };
        if is_count {
            self.call(&COUNTED, &[kind])?;
        } else if kind != Type::Truth {
            kind.fits(Type::Number)?;
        }
        let of = match of {
            AggregateOf::Quantile(share) if share.is_nan() => AggregateOf::Quantile(self.share(name)?),
            of => of,
        };
        self.needs(")")?;
        if self.takes("filter") {
            self.filter()?;
        }
        let argument = Expression(mem::replace(&mut self.steps, formula));
        self.is_of_row = false;
        self.aggregates.push(Aggregate { of, argument });
        self.steps.push(Step::Leaf(self.aggregates.len() - 1));
        Ok(Type::Number)
    }

    /// Parses the share of a quantile, after its value.
    fn share(&mut self, name: &str) -> Made<f64> {
        self.needs(",")?;
        let share = self.token(0).parse().ok().filter(|share| (0.0..=1.0).contains(share));
        self.at += 1;
        share.ok_or_else(|| format!("`{name}` takes a share from 0 to 1, such as 0.9, after its value"))
    }

    /// Parses the filter of an aggregate: rows for which it is not true have no value.
    fn filter(&mut self) -> Made<()> {
        let value = mem::take(&mut self.steps);
        self.constant(Value::Truth(true), Type::Truth);
        self.needs("(")?;
        self.needs("where")?;
        self.expression()?.fits(Type::Truth)?;
        self.needs(")")?;
        self.steps.extend(value);
        self.constant(Value::Null, Type::Any);
        self.steps.push(Step::Call(CASE, 4));
        Ok(())
    }
}
