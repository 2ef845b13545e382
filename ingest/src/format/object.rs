//! Reading of any JSON object into a row, through `serde_json` and without a generic value.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{
    builder::{
        names::{ColumnTarget, IS_SET, Names, Target},
        row::{FieldError, Member, Row, Scalar},
    },
    limits::MAX_FIELDS,
};

/// Reads the object that spans all of `json`.
///
/// # Errors
/// Fails when it is none.
pub(crate) fn read<'a>(names: &Names, json: &'a [u8]) -> serde_json::Result<Row<'a>> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let row = RowSeed(names).deserialize(&mut deserializer)?;
    deserializer.end().map(|()| row)
}

/// Seed that reads an object into a [`Row`].
struct RowSeed<'n>(&'n Names);

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Row<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = Row<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row<'de>, A::Error> {
        let mut row = Row::new(self.0.kind);
        let mut seen = HashSet::with_capacity(8);
        while let Some(Text(name)) = map.next_key()? {
            if seen.len() >= MAX_FIELDS {
                return Err(serde::de::Error::custom(format!("more than {MAX_FIELDS} fields")));
            }
            if seen.contains(&name) {
                row.errors.push(FieldError::new(&name, "is given twice"));
            }
            match self.0.find(&name) {
                Some(Target::Family(family)) => match map.next_value()? {
                    Members::Given(members) => {
                        let members = members.into_iter();
                        row.members.extend(members.map(|(name, value)| Member { family, name, value }));
                    }
                    Members::Wrong => {
                        let family = &self.0.kind.families()[family];
                        let message = format!("should be an object of {}", family.kind.plural());
                        row.errors.push(FieldError::new(family.name, message));
                    }
                },
                Some(Target::Field(field)) => row.fields[field] = map.next_value()?,
                Some(Target::PredictedOn) => row.predicted_on = map.next_value()?,
                Some(Target::EventId) => row.event_id = map.next_value()?,
                Some(Target::Member(family, skipped)) => {
                    let member = Cow::Owned(name[skipped..].to_owned());
                    row.members.push(Member { family, name: member, value: map.next_value()? });
                }
                Some(Target::Asked(at)) => {
                    let value: Scalar<'_> = map.next_value()?;
                    for target in &self.0.asked[at].targets {
                        let value = value.clone();
                        match target {
                            ColumnTarget::Field(field) => row.fields[*field] = value,
                            ColumnTarget::PredictedOn => row.predicted_on = value,
                            ColumnTarget::EventId => row.event_id = value,
                            ColumnTarget::Member(family, name) => {
                                let name = Cow::Owned(name.clone());
                                row.members.push(Member { family: *family, name, value });
                            }
                        }
                    }
                }
                Some(Target::Ignored) => drop(map.next_value::<serde::de::IgnoredAny>()?),
                Some(Target::Set) => {
                    map.next_value::<serde::de::IgnoredAny>()?;
                    row.errors.push(FieldError::new(&name, IS_SET));
                }
                None => {
                    map.next_value::<Scalar<'_>>()?;
                    row.errors.push(FieldError::new(&name, self.0.unknown(&name, None)));
                }
            }
            seen.insert(name);
        }
        Ok(row)
    }
}

/// String, borrowed from the body if it has no escapes.
#[derive(PartialEq, Eq, Hash)]
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Ok(Text(text)),
            _ => Err(serde::de::Error::custom("expected a string")),
        }
    }
}

/// The members of a family in a row.
enum Members<'a> {
    Given(Vec<(Cow<'a, str>, Scalar<'a>)>),
    Wrong,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((Text(name), value)) = map.next_entry()? {
            if members.len() >= MAX_FIELDS {
                return Err(serde::de::Error::custom(format!("more than {MAX_FIELDS} members")));
            }
            members.push((name, value));
        }
        Ok(Members::Given(members))
    }

    fn visit_unit<E>(self) -> Result<Members<'de>, E> {
        Ok(Members::Given(Vec::new()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Members<'de>, E> {
        Ok(Members::Wrong)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Members<'de>, E> {
        Ok(Members::Wrong)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Members<'de>, E> {
        Ok(Members::Wrong)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Members<'de>, E> {
        Ok(Members::Wrong)
    }

    fn visit_str<E>(self, _: &str) -> Result<Members<'de>, E> {
        Ok(Members::Wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Members<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Members::Wrong)
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar<'de>, E> {
        Ok(i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other("an object"))
    }
}
