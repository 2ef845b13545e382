//! What the OpenAPI document says of the query service.

use axum::http::{HeaderName, StatusCode};
use event::{MAX_WINDOW_DAYS, fields::FieldType};
use web::{
    Operation,
    openapi::{
        Header, RefOr, Schema, Type,
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
            "From the first to the last day, both included, or of the `last` ones; at most {MAX_WINDOW_DAYS} days. `HEAD` checks the parameters, the workspace and the release, and reads no events."
        ));
    let operation = parameters(what).fold(operation, Operation::takes);
    let row = schema::component(&row_name(what));
    let rows = with_header(rows_of(&row, what.has_history()), said::OF_WINDOW);
    let rows = if is_paged(what) { with_header(rows, said::OF_NEXT) } else { rows };
    operation.answers(StatusCode::OK, or_explained(rows).build())
}

pub(super) fn column_name(what: Dataset) -> RefOr<Schema> {
    let names = schema::one_of(what.columns().iter().map(|(name, _)| *name)).into();
    let patterns = what.families().into_iter().map(|family| schema::string().pattern(Some(family.pattern())));
    let all: Vec<RefOr<Schema>> = std::iter::once(names).chain(patterns.map(Into::into)).collect();
    match all.len() {
        1 => all.into_iter().next().unwrap_or_else(|| schema::string().into()),
        _ => schema::any_of(all),
    }
}

/// Rows in every format.
pub(super) fn rows_in(row: &RefOr<Schema>) -> ResponseBuilder {
    let rows = Format::ALL.into_iter().fold(ResponseBuilder::new(), |response, format| {
        let schema = match format {
            Format::Ndjson => schema::array(row.clone()).into(),
            Format::Table | Format::Csv | Format::CsvSpreadsheet => schema::string().into(),
            Format::Parquet | Format::Ipc | Format::IpcStream | Format::IpcStreamLz4 => {
                schema::bytes(media_type(format))
            }
        };
        response.content(media_type(format), web::content(schema, None))
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

/// A row as NDJSON has it.
fn row(what: Dataset) -> RefOr<Schema> {
    let row = object_of(what.columns());
    let families = what.families();
    let mut called: Vec<String> = families
        .iter()
        .map(|family| format!("{} as `{}`", family.name, family.columns_are_called()))
        .collect();
    let mut types: Vec<Type> = families.iter().map(|family| json_type(family.kind)).collect();
    if what.takes(CHANGE) {
        called.push(format!("changes as `NAME{SUFFIX}`"));
        types.push(Type::Number);
    }
    if called.is_empty() {
        return row.into();
    }
    types.dedup();
    let member = ObjectBuilder::new().schema_type(schema::types(&types, true));
    let row = row
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(member.into()))))
        .description(Some(format!("Besides the fields, {}.", called.join(", "))));
    row.into()
}

/// What the operations refer to.
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    Dataset::all().map(|what| (row_name(what), row(what))).chain(explained::schemas()).collect()
}
