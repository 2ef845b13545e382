//! What the OpenAPI document says of the query service.

use axum::http::{HeaderName, StatusCode};
use event::{MAX_WINDOW_DAYS, fields::FieldType};
use web::{
    Operation,
    openapi::{
        Content, Header, RefOr, Schema, Type,
        response::ResponseBuilder,
        schema::{AdditionalProperties, ObjectBuilder},
    },
    schema,
};

use super::{
    explained::{self, or_explained},
    media_type,
    parameters::{is_paged, parameters},
    said,
};
use crate::{
    change::{CHANGE, SUFFIX},
    columns::ColumnType,
    intervals,
    output::Format,
    request::Dataset,
};

pub(super) fn query(what: Dataset) -> Operation {
    let name = what.name();
    let path = format!("/v1/workspaces/{{category}}/{{name}}/{name}");
    let operation = Operation::get(path, &format!("query_{name}"))
        .tag("query")
        .summary(what.summary())
        .description(format!(
            "From the first to the last day, both included, or of the `last` ones; at most {MAX_WINDOW_DAYS} days."
        ));
    let operation = parameters(what).fold(operation, Operation::takes);
    let row = schema::component(&row_name(what));
    let rows = with_header(rows_of(&row, what.has_history()), said::OF_WINDOW);
    let rows = if is_paged(what) { with_header(rows, said::OF_NEXT) } else { rows };
    operation.answers(StatusCode::OK, or_explained(rows).build())
}

pub(super) fn column_name(what: Dataset) -> RefOr<Schema> {
    let (columns, ends) = named_columns(what);
    let names = schema::one_of(columns.iter().map(|(name, _)| *name)).into();
    let patterns = what.families().into_iter().map(|family| family.pattern());
    let patterns = patterns.chain((ends > 0).then(|| END_PATTERN.to_owned()));
    let patterns = patterns.map(|pattern| schema::string().pattern(Some(pattern)).into());
    let all: Vec<RefOr<Schema>> = std::iter::once(names).chain(patterns).collect();
    match all.len() {
        1 => all.into_iter().next().unwrap_or_else(|| schema::string().into()),
        _ => schema::any_of(all),
    }
}

/// Rows in every format.
pub(super) fn rows_in(row: &RefOr<Schema>) -> ResponseBuilder {
    let rows = Format::ALL.into_iter().fold(ResponseBuilder::new(), |response, format| {
        let content = match format {
            Format::Ndjson => web::content(schema::array(row.clone()), None),
            _ => Content::default(),
        };
        response.content(media_type(format), content)
    });
    rows.description("The rows; of NDJSON, one object a line.")
}

/// Rows; those from the logs have headers that say what they were read from.
pub(super) fn rows_of(row: &RefOr<Schema>, has_history: bool) -> ResponseBuilder {
    match has_history {
        true => said::HEADERS.into_iter().fold(rows_in(row), with_header),
        false => rows_in(row),
    }
}

/// A response with a header, and what is said of it.
pub(super) fn with_header(response: ResponseBuilder, (name, says): (HeaderName, &str)) -> ResponseBuilder {
    let mut header = Header::new(schema::string());
    header.description = Some(says.into());
    response.header(name.as_str(), header)
}

pub(super) fn row_name(what: Dataset) -> String {
    format!("Row.{}", what.name())
}

fn json_type(kind: FieldType) -> Type {
    match kind {
        FieldType::Float => Type::Number,
        FieldType::Time | FieldType::Text => Type::String,
    }
}

/// An object with these columns.
fn object_of(columns: impl IntoIterator<Item = (&'static str, ColumnType)>) -> ObjectBuilder {
    columns.into_iter().fold(schema::closed(), |row, (name, kind)| {
        let value = match kind {
            ColumnType::Day => schema::day(),
            ColumnType::Count => schema::count().schema_type(schema::types(&[Type::Integer], true)),
            ColumnType::Field(FieldType::Time) => {
                schema::time().schema_type(schema::types(&[Type::String], true))
            }
            ColumnType::Field(kind) => {
                ObjectBuilder::new().schema_type(schema::types(&[json_type(kind)], true))
            }
        };
        row.property(name, value)
    })
}

/// A row that has these columns and no others.
pub(super) fn row_of(columns: impl IntoIterator<Item = (&'static str, ColumnType)>) -> RefOr<Schema> {
    object_of(columns).into()
}

/// The names of the ends of intervals and of the counts that they rest on.
const END_PATTERN: &str = "^[a-z][a-z0-9_]*_(n|low|high)$";

/// Returns the columns that a schema names, and the number of those of intervals, which it describes by [`END_PATTERN`].
fn named_columns(what: Dataset) -> (Vec<(&'static str, ColumnType)>, usize) {
    let mut columns = what.columns();
    let all = columns.len();
    if what == Dataset::Evaluations {
        columns.retain(|(name, _)| *name == "keys" || intervals::named(name).is_none());
    }
    let ends = all - columns.len();
    (columns, ends)
}

/// A row as NDJSON has it. Numbers that are computed are described together: `columns` names them.
fn row(what: Dataset) -> RefOr<Schema> {
    let families = what.families();
    if families.is_empty() && !what.takes(CHANGE) {
        return row_of(what.columns());
    }
    let is_event = what.rows_of().is_some();
    let number = ColumnType::Field(FieldType::Float);
    let row = object_of(what.columns().into_iter().filter(|(_, kind)| is_event || *kind != number));
    let mut called: Vec<String> = families.iter().map(|family| family.columns_are_called()).collect();
    let mut types = vec![Type::Number];
    for kind in families.iter().map(|family| json_type(family.kind)) {
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    if what.takes(CHANGE) {
        called.push(format!("NAME{SUFFIX}"));
    }
    let numbers = if is_event { "" } else { "the numbers that `columns` names, and " };
    let says = format!("Besides the fields, {numbers}`{}`.", called.join("`, `"));
    let member = ObjectBuilder::new().schema_type(schema::types(&types, true));
    row.additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(member.into()))))
        .description(Some(says))
        .into()
}

/// What the operations refer to.
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    Dataset::all().map(|what| (row_name(what), row(what))).chain(explained::schemas()).collect()
}
