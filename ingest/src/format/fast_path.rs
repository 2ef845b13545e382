//! Fast path for an object of the expected shape: known fields in about the order of the row before, simple values, tags and
//! other families as objects. It returns `None` for everything else, which then goes to [`super::object`]; so both always give
//! the same row.

use std::borrow::Cow;

use super::token::{closing_quote, scalar, skip_white};
use crate::{
    builder::{
        names::{Names, Target},
        row::{Member, Row},
    },
    limits::MAX_FIELDS,
};

/// Field at its last position.
struct Planned {
    /// Name in quotes.
    quoted: String,
    target: Target,
}

/// Reader of objects, which remembers the layout of the last one.
#[derive(Default)]
pub(crate) struct Lean {
    plan: Vec<Planned>,
}

impl Lean {
    /// Reads the object that begins at `at` into `row`, which is clear. Returns its end. After a `None` the content of the row is
    /// undefined.
    pub(crate) fn object<'a>(
        &mut self,
        names: &Names,
        text: &'a str,
        at: usize,
        row: &mut Row<'a>,
    ) -> Option<usize> {
        let bytes = text.as_bytes();
        if *bytes.get(at)? != b'{' {
            return None;
        }
        let mut at = skip_white(bytes, at + 1);
        if *bytes.get(at)? == b'}' {
            return Some(at + 1);
        }
        let mut seen = 0u64;
        let mut seen_names = SeenNames(None);
        for member in 0..MAX_FIELDS {
            let (target, end) = self.name(names, text, at, member)?;
            let name_ends = end - 1;
            let begin = colon(bytes, end)?;
            let after = if let Target::Family(family) = target {
                members(text, begin, family, row)?
            } else {
                let (value, after) = scalar(text, begin)?;
                match target {
                    Target::Field(field) => row.fields[field] = value,
                    Target::PredictedOn => row.predicted_on = value,
                    Target::EventId => row.event_id = value,
                    Target::Member(family, skipped) => {
                        let name = text.get(at + 1 + skipped..name_ends)?;
                        let is_it = |known: &Member<'_>| known.family == family && known.name == name;
                        if seen_names.may_have(family, name) && row.members.iter().any(is_it) {
                            return None;
                        }
                        row.members.push(Member { family, name: Cow::Borrowed(name), value });
                    }
                    Target::Ignored => {}
                    Target::Family(_) | Target::Asked(_) | Target::Set => return None,
                }
                after
            };
            let bit = bit(target);
            if seen & bit != 0 {
                return None;
            }
            seen |= bit;
            let after = skip_white(bytes, after);
            match bytes.get(after)? {
                b',' => at = skip_white(bytes, after + 1),
                b'}' => return Some(after + 1),
                _ => return None,
            }
        }
        None
    }

    /// Finds the target of the name at `at`, and the end of the name, first comparing it with the name that the last object had
    /// there.
    #[inline]
    fn name(&mut self, names: &Names, text: &str, at: usize, member: usize) -> Option<(Target, usize)> {
        let bytes = text.as_bytes();
        if let Some(planned) = self.plan.get(member)
            && bytes[at..].starts_with(planned.quoted.as_bytes())
        {
            return Some((planned.target, at + planned.quoted.len()));
        }
        if *bytes.get(at)? != b'"' {
            return None;
        }
        let end = closing_quote(bytes, at + 1)?;
        let target = names.find(text.get(at + 1..end)?)?;
        let planned = Planned { quoted: text.get(at..=end)?.to_owned(), target };
        if member < self.plan.len() {
            self.plan[member] = planned;
        } else if member == self.plan.len() {
            self.plan.push(planned);
        }
        Some((target, end + 1))
    }
}

/// Hashes of the names of members that a row had so far, to avoid the comparison of each with all before it.
struct SeenNames(Option<[u64; 32]>);

impl SeenNames {
    /// Returns whether the name may have been there, and adds it.
    fn may_have(&mut self, family: usize, name: &str) -> bool {
        let mix = |hash: usize, byte: u8| (hash ^ usize::from(byte)).wrapping_mul(0x0100_01b3);
        let hash = name.bytes().fold(family + 1, mix);
        let words = self.0.get_or_insert([0; 32]);
        let (word, bit) = (&mut words[(hash >> 6) % 32], 1 << (hash % 64));
        let was_there = *word & bit != 0;
        *word |= bit;
        was_there
    }
}

/// Bit that marks a target as seen; members by name have none.
fn bit(target: Target) -> u64 {
    match target {
        Target::Field(field) => 1 << field,
        Target::Family(family) => 1 << (48 + family),
        Target::PredictedOn => 1 << 60,
        Target::EventId => 1 << 61,
        Target::Member(..) | Target::Asked(_) | Target::Ignored | Target::Set => 0,
    }
}

/// Finds the beginning of the value, after the colon.
#[inline]
fn colon(bytes: &[u8], at: usize) -> Option<usize> {
    let at = skip_white(bytes, at);
    (*bytes.get(at)? == b':').then(|| skip_white(bytes, at + 1))
}

/// Reads an object of simple values into the members of a family; returns its end.
fn members<'a>(text: &'a str, at: usize, family: usize, row: &mut Row<'a>) -> Option<usize> {
    let bytes = text.as_bytes();
    if *bytes.get(at)? != b'{' {
        return None;
    }
    let mut at = skip_white(bytes, at + 1);
    if *bytes.get(at)? == b'}' {
        return Some(at + 1);
    }
    for _ in 0..MAX_FIELDS {
        if *bytes.get(at)? != b'"' {
            return None;
        }
        let end = closing_quote(bytes, at + 1)?;
        let name = text.get(at + 1..end)?;
        let (value, after) = scalar(text, colon(bytes, end + 1)?)?;
        row.members.push(Member { family, name: Cow::Borrowed(name), value });
        let after = skip_white(bytes, after);
        match bytes.get(after)? {
            b',' => at = skip_white(bytes, after + 1),
            b'}' => return Some(after + 1),
            _ => return None,
        }
    }
    None
}
