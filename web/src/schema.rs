//! The JSON Schemas by which several services describe their requests and answers.

use event::id::MAX_NAME_BYTES;
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Array, KnownFormat, Object, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
        schema::{AdditionalProperties, AllOfBuilder, AnyOfBuilder, ArrayBuilder, ArrayItems, SchemaType},
    },
};

/// The pattern of a name, as checked by `event::id::check_name`.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$";

const PATH_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}/[A-Za-z0-9][A-Za-z0-9._-]{0,127}$";

const ID_PATTERN: &str = "^([a-z]{1,2}_)?[0-9A-Za-z]{27}$";

/// Refers to the component called `name`.
pub fn component(name: &str) -> RefOr<Schema> {
    Ref::from_schema_name(name).into()
}

/// Returns the types of `base`, and null besides if `nullable`.
pub fn types(base: &[Type], nullable: bool) -> SchemaType {
    let mut types = base.to_vec();
    if nullable {
        types.push(Type::Null);
    }
    match types.len() {
        1 => SchemaType::Type(types.remove(0)),
        _ => SchemaType::Array(types),
    }
}

/// Allows null as well.
pub fn nullable(text: ObjectBuilder) -> ObjectBuilder {
    text.schema_type(types(&[Type::String], true))
}

/// A string of any content.
pub fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A string that is not empty and has no control characters.
pub fn line() -> ObjectBuilder {
    string().min_length(Some(1)).pattern(Some("^[^\\x00-\\x1f\\x7f-\\x9f]+$"))
}

/// A string out of a few.
pub fn one_of<'a>(values: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    string().enum_values(Some(values.into_iter().map(Value::from)))
}

/// A name chosen by people.
pub fn name() -> ObjectBuilder {
    string().pattern(Some(NAME_PATTERN)).max_length(Some(MAX_NAME_BYTES))
}

/// The id of an entity, given out with the prefix of its type, and accepted without it as well.
pub fn id() -> ObjectBuilder {
    string().pattern(Some(ID_PATTERN))
}

/// The path of a workspace, `category/name`.
pub fn path() -> ObjectBuilder {
    string().pattern(Some(PATH_PATTERN))
}

/// A workspace in one segment of a path: its id, or its path with the slash escaped.
pub fn workspace() -> RefOr<Schema> {
    any_of([id().into(), path().into()])
}

/// The type of a parameter that names a workspace: with `schema_with` a parameter loses its description.
#[derive(Debug)]
pub struct Workspace;

impl PartialSchema for Workspace {
    fn schema() -> RefOr<Schema> {
        workspace()
    }
}

impl ToSchema for Workspace {}

/// An instant.
pub fn time() -> ObjectBuilder {
    string().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}

/// A UTC day.
pub fn day() -> ObjectBuilder {
    string().format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)))
}

const DAYS: &str = "[0-9]{4}-[0-9]{2}-[0-9]{2}([.]{2}[0-9]{4}-[0-9]{2}-[0-9]{2})?";

/// Days: one, or the first and the last.
pub fn days() -> ObjectBuilder {
    string().pattern(Some(format!("^{DAYS}$")))
}

/// The days of a reference: one, the first and the last, those of a snapshot, those that a release was trained on, or those of a
/// baseline of a release.
pub fn reference_days() -> ObjectBuilder {
    let name = "[A-Za-z0-9][A-Za-z0-9._-]*";
    string().pattern(Some(format!("^({DAYS}|snapshot:{name}|release:{name}(/{name})?)$")))
}

/// A whole number within bounds.
pub fn integer(bounds: std::ops::RangeInclusive<usize>) -> ObjectBuilder {
    let (least, most) = bounds.into_inner();
    count().minimum(Some(least)).maximum(Some(most))
}

/// A whole number that is not negative.
pub fn count() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0))
}

/// True or false.
pub fn boolean() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

/// An object of the given properties, all of them there, and of no others.
pub fn object<'a>(properties: impl IntoIterator<Item = (&'a str, RefOr<Schema>)>) -> ObjectBuilder {
    properties
        .into_iter()
        .fold(closed(), |object, (name, schema)| object.property(name, schema).required(name))
}

/// The object of a struct, with the properties that it has and no others.
pub fn of<T: PartialSchema>() -> ObjectBuilder {
    let object = match T::schema() {
        RefOr::T(Schema::Object(object)) => object.into(),
        _ => ObjectBuilder::new(),
    };
    object.additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
}

/// An object that takes only the properties that it will name.
pub fn closed() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
}

/// An object with values of one form under any names.
pub fn map(names: Option<ObjectBuilder>, values: impl Into<RefOr<Schema>>) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property_names(names.map(ObjectBuilder::build))
        .additional_properties(Some(AdditionalProperties::RefOr(values.into())))
}

/// An array.
pub fn array(items: impl Into<RefOr<Schema>>) -> ArrayBuilder {
    Array::builder().items(ArrayItems::RefOrSchema(Box::new(items.into())))
}

/// A value that matches one of `schemas`.
pub fn any_of(schemas: impl IntoIterator<Item = RefOr<Schema>>) -> RefOr<Schema> {
    schemas.into_iter().fold(AnyOfBuilder::new(), AnyOfBuilder::item).into()
}

/// A value that matches all of `schemas`.
pub fn all_of(schemas: impl IntoIterator<Item = RefOr<Schema>>) -> RefOr<Schema> {
    schemas.into_iter().fold(AllOfBuilder::new(), AllOfBuilder::item).into()
}

/// Bytes, which JSON Schema does not describe.
pub fn bytes(media_type: &str) -> RefOr<Schema> {
    Object::builder().content_media_type(media_type).schema_type(SchemaType::AnyValue).into()
}
