//! Operations as the OpenAPI document describes them: their fields, from the path, the query, headers and the body.

use std::{collections::BTreeMap, sync::LazyLock};

use anyhow::bail;
use axum::body::Bytes;
use clap::{Arg, ArgAction};
use event::Error;
use http_body_util::Full;
use hyper::{Method, Request, header::CONTENT_TYPE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Number, Value, json};
use web::{RequiredPermission, Routes};

/// Place of a field in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Path,
    Query,
    Header,
    Body,
}

/// Field of a request.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) at: At,
    pub(super) says: String,
    pub(super) is_required: bool,
    /// True for a workspace in two segments of a path.
    pub(super) is_pair: bool,
    /// Name of its option, and of the value behind it.
    pub(super) option: String,
    pub(super) shown: String,
    schema: Schema,
    /// JSON Schema of its value, with its description.
    pub(super) json: Value,
}

/// Operation, with all that a command needs.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) summary: String,
    pub(super) description: String,
    pub(super) fields: Vec<Field>,
    pub(super) has_body: bool,
    /// True if it changes nothing: a GET, or a POST that only needs rights to read.
    pub(super) is_read: bool,
}

/// Types that a value may have.
#[derive(Clone, Debug, Default, PartialEq)]
struct Schema {
    types: Vec<String>,
    names: Vec<String>,
    /// Types of the items of a list, or of the values of a map.
    within: Option<Box<Schema>>,
    properties: BTreeMap<String, Schema>,
    /// True for a text such as `-1,0,1`.
    may_begin_with_hyphen: bool,
}

/// The pair of parameters that names a workspace.
const PAIR: &str = "/{category}/{name}";

/// Name of the field in its place.
const WORKSPACE: &str = "workspace";

/// All operations of commands, by id.
pub(super) fn described() -> &'static BTreeMap<String, Described> {
    static ALL: LazyLock<BTreeMap<String, Described>> = LazyLock::new(|| {
        let mut all = BTreeMap::new();
        add(&mut all, &catalog::http::operations());
        add(&mut all, &access::http::operations());
        add(&mut all, &ingest::http::operations());
        add(&mut all, &query::http::operations());
        add(&mut all, &query::http::creations());
        all
    });
    &ALL
}

fn add<S: Clone + Send + Sync + 'static>(all: &mut BTreeMap<String, Described>, routes: &Routes<S>) {
    let schemas = serde_json::to_value(routes.schemas()).unwrap_or_default();
    for (path, item) in &routes.paths().paths {
        let item = serde_json::to_value(item).unwrap_or_default();
        for (method, operation) in item.as_object().into_iter().flatten() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
            if let Some(id) = operation["operationId"].as_str() {
                let demand = routes.demands().get(path).and_then(|demands| demands.get(method.as_str()));
                let is_read = method == Method::GET || method == Method::POST && demand.is_some_and(reads);
                let described = Described::of(method, path, operation, &schemas);
                all.insert(id.to_owned(), Described { is_read, ..described });
            }
        }
    }
}

impl Described {
    fn of(method: Method, path: &str, operation: &Value, schemas: &Value) -> Self {
        let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
        let mut fields: Vec<Field> = Vec::new();
        if path.contains(PAIR) {
            fields.push(Field::pair());
        }
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        fields.extend(parameters.filter_map(|parameter| Field::parameter(parameter, schemas)).filter(
            |field| {
                !(field.at == At::Path
                    && path.contains(PAIR)
                    && PAIR.contains(&format!("{{{}}}", field.name)))
            },
        ));
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        fields.extend(properties(body, schemas).into_iter().map(|(name, (schema, is_required))| {
            let says = said(&schema, schemas);
            let field = Field::new((name, At::Body), (says, is_required), Schema::of(&schema, schemas));
            Field { json: inlined(&schema, schemas), ..field }
        }));
        // An option keeps the name of its list where another field has the name of one of it.
        let names: Vec<String> = fields.iter().map(|field| field.name.replace('_', "-")).collect();
        for field in &mut fields {
            let whole = field.name.replace('_', "-");
            if field.at == At::Body && field.option != whole && names.contains(&field.option) {
                field.option = whole;
            }
        }
        Self {
            method,
            path: path.replace(PAIR, "/{workspace}"),
            summary: text("summary"),
            description: text("description"),
            fields,
            has_body: operation["requestBody"].is_object(),
            is_read: false,
        }
    }

    /// Makes a request of the values of fields. Those of the body go into `body`, as they are; of the rest a list is joined by commas.
    ///
    /// # Errors
    /// `Invalid`, for a part of the path that is missing or empty, and for what no request can hold.
    pub(super) fn request(
        &self,
        values: &Map<String, Value>,
        mut body: Map<String, Value>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let (mut path, mut query) = (self.path.clone(), String::new());
        let mut request = Request::builder().method(self.method.clone());
        for field in &self.fields {
            let Some(value) = values.get(&field.name) else {
                if field.at == At::Path {
                    bail!(Error::invalid(format!("the {} is missing", field.name)));
                }
                continue;
            };
            match field.at {
                At::Path => {
                    check_named(field, &as_text(value))?;
                    path = path.replace(&format!("{{{}}}", field.name), &segments(field, &as_text(value)));
                }
                At::Query => {
                    let separator = if query.is_empty() { '?' } else { '&' };
                    query += &format!("{separator}{}={}", field.name, escaped(&as_text(value)));
                }
                // A version is quoted, as entity tags are.
                At::Header if field.name == "If-Match" => {
                    let text = as_text(value);
                    let wrong = |_| {
                        let why = format!("`{text}` is not a version, a whole number");
                        Error::invalid(format!("--{}: {why}", field.option))
                    };
                    request =
                        request.header("If-Match", format!("\"{}\"", text.parse::<i64>().map_err(wrong)?));
                }
                At::Header => request = request.header(&field.name, as_text(value)),
                At::Body => _ = body.insert(field.name.clone(), value.clone()),
            }
        }
        let body = match self.has_body {
            true => Bytes::from(Value::Object(body).to_string()),
            false => Bytes::new(),
        };
        if self.has_body {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.uri(path + &query).body(Full::from(body));
        Ok(request.map_err(|error| Error::invalid(format!("the request cannot be made: {error}")))?)
    }

    /// The field of a name.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Name of the field that holds the workspace.
    pub(super) fn workspace_field(&self) -> Option<&'static str> {
        let is_listed = || self.field("of").filter(|of| of.is_required).map(|_| "of");
        self.field(WORKSPACE).map(|_| WORKSPACE).or_else(is_listed)
    }
}

/// Returns true if a caller needs rights to read, and no other.
fn reads(demand: &RequiredPermission) -> bool {
    demand.is_read() && !demand.is_nothing()
}

/// Refuses a text that leaves a segment of a path empty, which would be another path.
fn check_named(field: &Field, text: &str) -> Result<(), Error> {
    match text {
        "" => Err(Error::invalid(format!("the {} is empty", field.name.replace('_', " ")))),
        _ if field.is_pair && text.split('/').any(str::is_empty) => {
            Err(Error::invalid(format!("`{text}` is no workspace; name it as category/name, or by id")))
        }
        _ => Ok(()),
    }
}

/// The segments of a path that name an entity: two for the path of a workspace, or one behind `-` for its id.
fn segments(field: &Field, text: &str) -> String {
    match (field.is_pair, text.split_once('/')) {
        (true, Some((category, name))) => format!("{}/{}", escaped(category), escaped(name)),
        (true, None) => format!("-/{}", escaped(text)),
        (false, _) => escaped(text),
    }
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A value in a path or a query.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(as_text).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}

/// Keywords of a JSON Schema that are left out of [`inlined`] ones: the operation checks values itself.
const CHECKED: [&str; 6] = ["pattern", "minLength", "maxLength", "minItems", "uniqueItems", "example"];

/// The schema without references, and without what readers of it need not know.
fn inlined(schema: &Value, schemas: &Value) -> Value {
    let schema = resolved(schema, schemas);
    let inner = |value: &Value| match value {
        Value::Array(items) => items.iter().map(|item| inlined(item, schemas)).collect(),
        value => inlined(value, schemas),
    };
    let Value::Object(keywords) = schema else { return schema.clone() };
    let kept = keywords.iter().filter(|(name, _)| !CHECKED.contains(&name.as_str()));
    let kept = kept.map(|(name, value)| match (name.as_str(), value) {
        // These are names of fields, not keywords.
        ("properties", Value::Object(fields)) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), inner(field)));
            (name.clone(), Value::Object(fields.collect()))
        }
        (_, value) => (name.clone(), inner(value)),
    });
    Value::Object(kept.collect())
}

/// Fields of an object, each with its schema, and true if it is required. Of several forms of an object, all fields are taken.
fn properties(schema: &Value, schemas: &Value) -> BTreeMap<String, (Value, bool)> {
    let schema = resolved(schema, schemas);
    let mut all = BTreeMap::<String, (Value, bool)>::new();
    for form in schema["anyOf"].as_array().or(schema["oneOf"].as_array()).into_iter().flatten() {
        for (name, (found, is_required)) in properties(form, schemas) {
            match all.get_mut(&name) {
                // A form that allows nothing but null says less than another.
                Some((known, _)) if known["type"] == "null" => *known = found,
                Some((known, _)) => join_names(known, &found),
                None => _ = all.insert(name, (found, is_required)),
            }
        }
    }
    let is_in_all = |name: &String| {
        let forms = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        forms.into_iter().flatten().all(|form| {
            let form = resolved(form, schemas);
            form["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
        })
    };
    all.iter_mut().for_each(|(name, (_, is_required))| *is_required &= is_in_all(name));
    for (name, found) in schema["properties"].as_object().into_iter().flatten() {
        let is_required =
            schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
        all.insert(name.clone(), (found.clone(), is_required));
    }
    all
}

/// Adds the names that a value may have in another form.
fn join_names(known: &mut Value, other: &Value) {
    if let (Some(names), Some(more)) = (known["enum"].as_array_mut(), other["enum"].as_array()) {
        let new: Vec<Value> = more.iter().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(new);
    }
}

/// The schema that a reference names.
fn resolved<'a>(schema: &'a Value, schemas: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        Some(name) => &schemas[name],
        None => schema,
    }
}

/// Description of a value; a list may be said by its items.
fn said(schema: &Value, schemas: &Value) -> String {
    resolved(schema, schemas)["description"].as_str().unwrap_or_default().to_owned()
}

impl Schema {
    fn of(schema: &Value, schemas: &Value) -> Self {
        let schema = resolved(schema, schemas);
        let mut found = Self::default();
        for form in schema["anyOf"].as_array().or(schema["oneOf"].as_array()).into_iter().flatten() {
            let form = Self::of(form, schemas);
            found.types.extend(form.types);
            found.names.extend(form.names);
            found.within = found.within.or(form.within);
            found.properties.extend(form.properties);
        }
        match &schema["type"] {
            Value::String(one) => found.types.push(one.clone()),
            Value::Array(all) => found.types.extend(all.iter().filter_map(Value::as_str).map(str::to_owned)),
            _ => {}
        }
        let pattern = schema["pattern"].as_str();
        found.may_begin_with_hyphen = pattern.is_some_and(|pattern| pattern.starts_with("^-?"));
        let names = schema["enum"].as_array().into_iter().flatten();
        found.names.extend(names.filter_map(Value::as_str).map(str::to_owned));
        let within =
            [&schema["items"], &schema["additionalProperties"]].into_iter().find(|within| within.is_object());
        if let Some(within) = within {
            found.within = Some(Box::new(Self::of(within, schemas)));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            found.properties.insert(name.clone(), Self::of(property, schemas));
        }
        found
    }

    fn is(&self, kind: &str) -> bool {
        self.types.iter().any(|one| one == kind)
    }

    /// True if a value is given by several options.
    fn is_repeated(&self) -> bool {
        self.is("array") || self.is_map()
    }

    /// True for an object that is given by its names and values.
    fn is_map(&self) -> bool {
        let is_scalar =
            |schema: &Self| !(schema.types.is_empty() || schema.is("object") || schema.is("array"));
        let has_scalars = !self.properties.is_empty() && self.properties.values().all(is_scalar);
        self.is("object") && (has_scalars || self.within.as_deref().is_some_and(is_scalar))
    }

    /// Reads a value of this schema.
    fn read(&self, text: &str) -> Result<Value, String> {
        if text == "none" && self.is("null") && !self.is("string") {
            return Ok(Value::Null);
        }
        if self.is("integer") || self.is("number") {
            let number = if self.is("integer") { text.parse::<i64>().ok().map(Number::from) } else { None };
            let number = number.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64));
            if let Some(number) = number {
                return Ok(Value::Number(number));
            }
        }
        if self.is("boolean")
            && let Ok(value) = text.parse::<bool>()
        {
            return Ok(Value::Bool(value));
        }
        match self.is("string") {
            true => Ok(text.into()),
            // Nothing is known of it, or it has a form of its own.
            false => match serde_json::from_str(text) {
                Ok(value) => Ok(value),
                Err(_) if self.types.is_empty() => Ok(text.into()),
                Err(_) => Err(format!("`{text}` is not {}", self.words())),
            },
        }
    }

    /// Name of what is expected.
    fn words(&self) -> &'static str {
        match () {
            () if self.is("integer") => "a whole number",
            () if self.is("number") => "a number",
            () if self.is("boolean") => "true or false",
            () if self.is("array") => "a list in JSON",
            () => "an object in JSON",
        }
    }

    /// Reads `NAME=VALUE`.
    fn read_pair(&self, text: &str) -> Result<(String, Value), String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is not of the form NAME=VALUE"))?;
        let of = self.properties.get(name).or(self.within.as_deref());
        let of = of.ok_or_else(|| {
            let names: Vec<&str> = self.properties.keys().map(String::as_str).collect();
            format!("`{name}` is none of {}", names.join(", "))
        })?;
        match value {
            // Takes the name away.
            "none" if of.is("null") => Ok((name.to_owned(), Value::Null)),
            _ => Ok((name.to_owned(), of.read(value)?)),
        }
    }
}

impl Field {
    fn new((name, at): (String, At), (says, is_required): (String, bool), schema: Schema) -> Self {
        let is_repeated = at == At::Body && schema.is_repeated() && !schema.is("string");
        let option = match name.to_lowercase().replace('_', "-") {
            version if version == "if-match" => "if-version".to_owned(),
            name if is_repeated => singular(&name),
            name => name,
        };
        let shown = option.to_uppercase().replace('-', "_");
        let mut says = says.trim_end_matches('.').to_owned();
        let mut add = |text: &str, separator: &str| {
            says += if says.is_empty() { "" } else { separator };
            says += text;
        };
        if !schema.names.is_empty() {
            add(&schema.names.join(", "), ": ");
        }
        if is_repeated {
            add("May be repeated", ". ");
        }
        Self { name, at, says, is_required, is_pair: false, option, shown, schema, json: Value::Null }
    }

    /// The workspace in two segments of a path.
    fn pair() -> Self {
        let says = "The workspace, as category/name or by id".to_owned();
        let json = json!({ "type": "string", "description": says });
        let field = Self::new((WORKSPACE.to_owned(), At::Path), (says, true), Schema::default());
        Self { is_pair: true, json, ..field }
    }

    fn parameter(parameter: &Value, schemas: &Value) -> Option<Self> {
        let at = match parameter["in"].as_str()? {
            "path" => At::Path,
            "query" => At::Query,
            _ => At::Header,
        };
        let (name, says) = (parameter["name"].as_str()?.to_owned(), said(parameter, schemas));
        let schema = Schema::of(&parameter["schema"], schemas);
        let mut json = inlined(&parameter["schema"], schemas);
        json["description"] = says.as_str().into();
        Some(Self { json, ..Self::new((name, at), (says, parameter["required"] == true), schema) })
    }

    /// The option for it, without help.
    pub(super) fn option(&'static self, is_required: bool) -> Arg {
        let arg = Arg::new(&*self.name).long(&*self.option).required(is_required);
        let arg = if self.option == WORKSPACE { arg.short('w') } else { arg };
        let arg = if self.schema.may_begin_with_hyphen { arg.allow_hyphen_values(true) } else { arg };
        if self.schema.is_map() {
            arg.action(ArgAction::Append).value_name("NAME=VALUE")
        } else if self.schema.is_repeated() {
            arg.action(ArgAction::Append).value_name(&*self.shown)
        } else if self.schema.is("boolean")
            && self.schema.types.iter().all(|kind| kind == "boolean" || kind == "null")
        {
            // Alone it means true.
            arg.num_args(0..=1).default_missing_value("true").require_equals(true).value_name("true|false")
        } else {
            arg.value_name(&*self.shown)
        }
    }
}

/// Name of one of several.
fn singular(name: &str) -> String {
    if let Some(stem) = name.strip_suffix("ies") {
        return format!("{stem}y");
    }
    let stem = name.strip_suffix("sses").map(|stem| format!("{stem}ss"));
    stem.unwrap_or_else(|| name.strip_suffix('s').unwrap_or(name).to_owned())
}

/// Value of a field of a body, from the options that were given for it.
///
/// # Errors
/// `Invalid`, naming the option.
pub(super) fn value_of(field: &Field, given: &[String]) -> Result<Value, Error> {
    let schema = &field.schema;
    let wrong = |why: String| Error::invalid(format!("--{}: {why}", field.option));
    let is_json = |text: &String| text.trim_start().starts_with(['{', '[']);
    match given {
        [text] if is_json(text) && !schema.is("string") => {
            serde_json::from_str(text).map_err(|error| wrong(format!("it is no JSON: {error}")))
        }
        [text] if text == "none" && !schema.is("string") => Ok(Value::Null),
        _ if schema.is_map() => {
            let pairs = given.iter().map(|text| schema.read_pair(text));
            Ok(Value::Object(pairs.collect::<Result<Map<_, _>, _>>().map_err(wrong)?))
        }
        _ if schema.is("array") => {
            let any = Schema::default();
            let items = schema.within.as_deref().unwrap_or(&any);
            Ok(Value::Array(
                given.iter().map(|text| items.read(text)).collect::<Result<_, _>>().map_err(wrong)?,
            ))
        }
        _ => schema.read(given.first().map_or("", String::as_str)).map_err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, schema: &Value) -> Field {
        Field::new((name.into(), At::Body), (String::new(), false), Schema::of(schema, &Value::Null))
    }

    fn read(schema: &Value, given: &[&str]) -> Result<Value, String> {
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        value_of(&field("secrets", schema), &given).map_err(|error| error.to_string())
    }

    #[test]
    fn values_have_the_types_of_their_fields() {
        let nullable = json!({ "type": ["integer", "null"] });
        assert_eq!(read(&nullable, &["30"]), Ok(json!(30)));
        assert_eq!(read(&nullable, &["none"]), Ok(Value::Null));
        assert_eq!(read(&nullable, &["soon"]), Err("--secrets: `soon` is not a whole number".into()));
        assert_eq!(read(&json!({ "type": "string" }), &["30"]), Ok(json!("30")));
        assert_eq!(read(&json!({ "type": "number" }), &["0.5"]), Ok(json!(0.5)));
        let list = json!({ "type": "array", "items": { "type": "string" } });
        assert_eq!(read(&list, &["a", "b"]), Ok(json!(["a", "b"])));
        let map = json!({ "type": "object", "additionalProperties": { "type": ["number", "null"] } });
        assert_eq!(read(&map, &["a=1", "b=none"]), Ok(json!({ "a": 1.0, "b": null })));
        let free = json!({ "type": "object", "additionalProperties": {} });
        assert_eq!(read(&free, &["{\"a\":[1]}"]), Ok(json!({ "a": [1] })));
        assert!(read(&free, &["a"]).is_err());
    }

    #[test]
    fn an_option_names_one_of_several() {
        let list = json!({ "type": "array", "items": { "type": "string" } });
        let names =
            ["metrics", "categories", "addresses", "dimensions"].map(|name| field(name, &list).option);
        assert_eq!(names, ["metric", "category", "address", "dimension"]);
        assert_eq!(field("snapshot_from", &json!({ "type": "string" })).option, "snapshot-from");
    }
}
