//! Parser of expressions, which checks names and types.

use std::cmp::Ordering;

use super::{
    Aggregate, AggregateOf, Expression, Formula, JoinedColumn,
    functions::{AGGREGATES, MINUS, SCALARS, SECONDS, SIGNS, SPECIAL, aggregates, find, scalars},
    tokens::{Token, tokens},
    types::{Made, Type},
};
use crate::Kind;

/// Maximum depth of nested parentheses and functions.
const MAX_DEPTH: usize = 32;

type Typed = (Expression, Type);

/// Signs of comparison, and the orders for which they are true.
const COMPARISONS: [(&str, &[Ordering]); 7] = [
    ("=", &[Ordering::Equal]),
    ("<>", &[Ordering::Less, Ordering::Greater]),
    ("!=", &[Ordering::Less, Ordering::Greater]),
    ("<=", &[Ordering::Less, Ordering::Equal]),
    (">=", &[Ordering::Equal, Ordering::Greater]),
    ("<", &[Ordering::Less]),
    (">", &[Ordering::Greater]),
];

/// Parses the expression of a metric.
///
/// # Errors
/// The reason as a message.
pub(super) fn read(text: &str) -> Made<Formula> {
    let mut reader = Reader {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        is_of_row: false,
        columns: Vec::new(),
        aggregates: Vec::new(),
    };
    let (value, kind) = reader.expression()?;
    if let Some(token) = reader.tokens.get(reader.at) {
        return Err(format!("{} has no place after its end", said(token)));
    }
    if reader.aggregates.is_empty() {
        let there = aggregates().collect::<Vec<_>>().join(", ");
        return Err(format!("it is no aggregate of rows; there are {there}"));
    }
    kind.must_be(Type::Number)?;
    Ok(Formula { columns: reader.columns, aggregates: reader.aggregates, value })
}

fn said(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("`{word}`"),
        Token::Quoted(name) => format!("`\"{name}\"`"),
        Token::Number(number) => format!("`{number}`"),
        Token::Text(text) => format!("`'{text}'`"),
        Token::Sign(sign) => format!("`{sign}`"),
    }
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// True inside an aggregate, where the leaves are columns.
    is_of_row: bool,
    columns: Vec<JoinedColumn>,
    aggregates: Vec<Aggregate>,
}

impl Reader {
    fn takes_sign(&mut self, wanted: &str) -> bool {
        let is_next = matches!(self.tokens.get(self.at), Some(Token::Sign(sign)) if *sign == wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn is_word(&self, ahead: usize, wanted: &str) -> bool {
        let token = self.tokens.get(self.at + ahead);
        matches!(token, Some(Token::Word(word)) if word.eq_ignore_ascii_case(wanted))
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let is_next = self.is_word(0, wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, is_taken: bool, wanted: &str) -> Made<()> {
        match (is_taken, self.tokens.get(self.at)) {
            (true, _) => Ok(()),
            (false, Some(token)) => Err(format!("{} stands where `{wanted}` is needed", said(token))),
            (false, None) => Err(format!("`{wanted}` is missing at its end")),
        }
    }

    fn needs_sign(&mut self, wanted: &str) -> Made<()> {
        let is_taken = self.takes_sign(wanted);
        self.needs(is_taken, wanted)
    }

    fn needs_word(&mut self, wanted: &str) -> Made<()> {
        let is_taken = self.takes_word(wanted);
        self.needs(is_taken, wanted)
    }

    fn expression(&mut self) -> Made<Typed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH}"));
        }
        let mut left = self.all()?;
        while self.takes_word("or") {
            let right = self.all()?;
            left = logic(Expression::Or, left, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn all(&mut self) -> Made<Typed> {
        let mut left = self.negated()?;
        while self.takes_word("and") {
            let right = self.negated()?;
            left = logic(Expression::And, left, right)?;
        }
        Ok(left)
    }

    fn negated(&mut self) -> Made<Typed> {
        let mut nots = 0;
        while self.takes_word("not") {
            nots += 1;
        }
        let (of, kind) = self.comparison()?;
        if nots > 0 {
            kind.must_be(Type::Truth)?;
        }
        Ok((negated(of, nots % 2 == 1), kind))
    }

    fn comparison(&mut self) -> Made<Typed> {
        let (left, kind) = self.sum()?;
        for (sign, orders) in COMPARISONS {
            if self.takes_sign(sign) {
                let (right, other) = self.sum()?;
                kind.with(other)?;
                return Ok((Expression::Compare(orders, Box::new([left, right])), Type::Truth));
            }
        }
        if self.takes_word("is") {
            let is_not = self.takes_word("not");
            self.needs_word("null")?;
            return Ok((negated(Expression::IsNull(Box::new(left)), is_not), Type::Truth));
        }
        let is_not = self.is_word(0, "not") && (self.is_word(1, "in") || self.is_word(1, "between"));
        self.at += usize::from(is_not);
        if self.takes_word("in") {
            self.needs_sign("(")?;
            let mut list = Vec::new();
            for (one, other) in self.list()? {
                kind.with(other)?;
                list.push(one);
            }
            return Ok((negated(Expression::In(Box::new(left), list), is_not), Type::Truth));
        }
        if self.takes_word("between") {
            let (low, of_low) = self.sum()?;
            self.needs_word("and")?;
            let (high, of_high) = self.sum()?;
            kind.with(of_low)?;
            kind.with(of_high)?;
            let between = Expression::Between(Box::new([left, low, high]));
            return Ok((negated(between, is_not), Type::Truth));
        }
        Ok((left, kind))
    }

    fn sum(&mut self) -> Made<Typed> {
        let mut left = self.product()?;
        while let Some(sign) = ["+", "-"].into_iter().find(|sign| self.takes_sign(sign)) {
            let right = self.product()?;
            left = match (sign, left, right) {
                ("-", (one, Type::Time), (other, Type::Time)) => {
                    (Expression::Call(&SECONDS, vec![one, other]), Type::Number)
                }
                (sign, left, right) => arithmetic(sign, left, right)?,
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Made<Typed> {
        let mut left = self.signed()?;
        while let Some(sign) = ["*", "/", "%"].into_iter().find(|sign| self.takes_sign(sign)) {
            let right = self.signed()?;
            left = arithmetic(sign, left, right)?;
        }
        Ok(left)
    }

    fn signed(&mut self) -> Made<Typed> {
        let mut is_minus = false;
        let mut has_sign = false;
        while let Some(sign) = ["+", "-"].into_iter().find(|sign| self.takes_sign(sign)) {
            is_minus ^= sign == "-";
            has_sign = true;
        }
        let (of, kind) = self.primary()?;
        if has_sign {
            kind.must_be(Type::Number)?;
        }
        Ok((if is_minus { Expression::Call(&MINUS, vec![of]) } else { of }, kind))
    }

    fn primary(&mut self) -> Made<Typed> {
        let Some(token) = self.tokens.get(self.at).cloned() else {
            return Err("it ends where a value is needed".into());
        };
        self.at += 1;
        match token {
            Token::Number(number) => Ok((Expression::Number(number), Type::Number)),
            Token::Text(text) => Ok((Expression::Text(text), Type::Text)),
            Token::Quoted(name) => self.column(&name),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.needs_sign(")")?;
                Ok(inner)
            }
            Token::Sign(_) => Err(format!("{} stands where a value is needed", said(&token))),
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "null" => Ok((Expression::Null, Type::Any)),
                "true" => Ok((Expression::Truth(true), Type::Truth)),
                "false" => Ok((Expression::Truth(false), Type::Truth)),
                "case" => self.case(),
                name if self.takes_sign("(") => self.function(name),
                _ => self.column(&word),
            },
        }
    }

    fn column(&mut self, name: &str) -> Made<Typed> {
        let Some(column) = JoinedColumn::named(name) else {
            let outcome = super::OUTCOME_COLUMNS.map(|(name, ..)| name);
            let there = Kind::Predictions.lasting_are_called(&outcome);
            return Err(format!("there is no column `{name}`; there are {there}"));
        };
        if !self.is_of_row {
            return Err(format!("the column `{name}` stands outside of an aggregate"));
        }
        let kind = Type::of(column.kind);
        let at = self.columns.iter().position(|known| *known == column).unwrap_or(self.columns.len());
        if at == self.columns.len() {
            self.columns.push(column);
        }
        Ok((Expression::Leaf(at), kind))
    }

    /// Parses a list separated by commas after an opening parenthesis.
    fn list(&mut self) -> Made<Vec<Typed>> {
        let mut list = vec![self.expression()?];
        while self.takes_sign(",") {
            list.push(self.expression()?);
        }
        self.needs_sign(")")?;
        Ok(list)
    }

    fn case(&mut self) -> Made<Typed> {
        let operand = if self.is_word(0, "when") { None } else { Some(self.expression()?) };
        let (mut cases, mut kind) = (Vec::new(), Type::Any);
        while self.takes_word("when") {
            let (when, of_when) = self.expression()?;
            match &operand {
                Some((_, of_operand)) => _ = of_operand.with(of_when)?,
                None => of_when.must_be(Type::Truth)?,
            }
            self.needs_word("then")?;
            let (then, of_then) = self.expression()?;
            kind = kind.with(of_then)?;
            cases.push((when, then));
        }
        if cases.is_empty() {
            self.needs_word("when")?;
        }
        let mut rest = None;
        if self.takes_word("else") {
            let (then, of_rest) = self.expression()?;
            kind = kind.with(of_rest)?;
            rest = Some(Box::new(then));
        }
        self.needs_word("end")?;
        Ok((Expression::Case(operand.map(|(operand, _)| Box::new(operand)), cases, rest), kind))
    }

    fn function(&mut self, name: &str) -> Made<Typed> {
        if let Some((_, of)) = AGGREGATES.iter().find(|(known, _)| *known == name) {
            return self.aggregate(name, *of);
        }
        let scalar = find(SCALARS, name);
        if scalar.is_none() && !SPECIAL.contains(&name) {
            let there = aggregates().chain(scalars()).collect::<Vec<_>>().join(", ");
            return Err(format!("there is no function `{name}`; there are {there}"));
        }
        let (arguments, kinds): (Vec<_>, Vec<_>) = self.list()?.into_iter().unzip();
        if let Some(scalar) = scalar {
            if !scalar.arguments.contains(&arguments.len()) {
                return Err(format!(
                    "`{name}` takes {} values, not {}",
                    scalar.arguments.end(),
                    arguments.len()
                ));
            }
            kinds.iter().try_for_each(|kind| kind.must_be(Type::Number))?;
            return Ok((Expression::Call(scalar, arguments), Type::Number));
        }
        let kind = kinds.into_iter().try_fold(Type::Any, Type::with)?;
        let made = match name {
            "coalesce" => Expression::Coalesce(arguments),
            "greatest" => Expression::Extreme(Ordering::Greater, arguments),
            "least" => Expression::Extreme(Ordering::Less, arguments),
            _ => match <[Expression; 2]>::try_from(arguments) {
                Ok(both) => Expression::NullIf(Box::new(both)),
                Err(other) => return Err(format!("`{name}` takes 2 values, not {}", other.len())),
            },
        };
        Ok((made, kind))
    }

    /// Parses an aggregate after its opening parenthesis.
    fn aggregate(&mut self, name: &str, of: AggregateOf) -> Made<Typed> {
        if self.is_of_row {
            return Err(format!("the aggregate `{name}` stands within another one"));
        }
        self.is_of_row = true;
        let is_count = of == AggregateOf::Count;
        let mut of = of;
        let argument = if is_count && self.takes_sign("*") {
            None
        } else {
            let (argument, kind) = self.expression()?;
            if !is_count && kind != Type::Truth {
                kind.must_be(Type::Number)?;
            }
            Some(argument)
        };
        if matches!(of, AggregateOf::Quantile(share) if share.is_nan()) {
            self.needs_sign(",")?;
            of = match self.tokens.get(self.at) {
                Some(Token::Number(share)) if (0.0..=1.0).contains(share) => AggregateOf::Quantile(*share),
                _ => return Err(format!("`{name}` takes a share from 0 to 1, such as 0.9, after its value")),
            };
            self.at += 1;
        }
        self.needs_sign(")")?;
        let mut filter = None;
        if self.takes_word("filter") {
            self.needs_sign("(")?;
            self.needs_word("where")?;
            let (holds, kind) = self.expression()?;
            kind.must_be(Type::Truth)?;
            self.needs_sign(")")?;
            filter = Some(holds);
        }
        self.is_of_row = false;
        self.aggregates.push(Aggregate { of, argument, filter });
        Ok((Expression::Leaf(self.aggregates.len() - 1), Type::Number))
    }
}

fn negated(of: Expression, is_not: bool) -> Expression {
    if is_not { Expression::Not(Box::new(of)) } else { of }
}

fn logic(make: fn(Box<[Expression; 2]>) -> Expression, one: Typed, other: Typed) -> Made<Typed> {
    one.1.must_be(Type::Truth)?;
    other.1.must_be(Type::Truth)?;
    Ok((make(Box::new([one.0, other.0])), Type::Truth))
}

fn arithmetic(sign: &str, one: Typed, other: Typed) -> Made<Typed> {
    one.1.must_be(Type::Number)?;
    other.1.must_be(Type::Number)?;
    let scalar = find(SIGNS, sign).ok_or_else(|| format!("there is no `{sign}`"))?;
    Ok((Expression::Call(scalar, vec![one.0, other.0]), Type::Number))
}
