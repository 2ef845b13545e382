//! Operations that only read, as tools for assistants: names, descriptions and arguments are those of the OpenAPI document.

use axum::body::Bytes;
use event::Error;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Map, Value, json};

use super::{
    FORMAT,
    described::{At, Described, Field, described},
    verbs::verbs,
};
use crate::output::is_single;

/// Groups of commands whose reading operations are tools: questions on models and data. Users, roles and tokens are no such question.
const GROUPS: [&str; 10] =
    ["query", "sql", "workspace", "model", "release", "run", "outcome", "review", "alert", "follow"];

/// Arguments by which a tool answers less, or the next part.
const LESS: [&str; 9] = ["limit", "cursor", "after", "columns", "fields", "group-by", "last", "from", "to"];

/// Fields that are no arguments: the format, since an answer is JSON or rows of it, and those that programs use.
const NOT_TAKEN: [&str; 3] = [FORMAT, "explain", "read-version"];

/// Suffixes of the columns that a metric has with its interval.
const INTERVAL: [&str; 3] = ["_n", "_low", "_high"];

/// Tool: an operation that only reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// Id of the operation.
    pub(crate) name: &'static str,
    described: &'static Described,
}

/// All tools, each once.
pub(crate) fn tools() -> Vec<Tool> {
    let mut all = Vec::<Tool>::new();
    for verb in verbs().filter(|verb| GROUPS.iter().any(|group| verb.words.split(' ').next() == Some(group)))
    {
        for name in std::iter::once(&verb.operation).chain(verb.or) {
            let described = &described()[*name];
            if described.is_read && all.iter().all(|tool| tool.name != *name) {
                all.push(Tool { name, described });
            }
        }
    }
    all
}

impl Tool {
    /// Summary and description of the operation.
    pub(crate) fn description(&self) -> String {
        let Described { summary, description, .. } = self.described;
        format!("{summary}. {description}").trim_end().to_owned()
    }

    /// JSON Schema of the arguments.
    pub(crate) fn input_schema(&self) -> Map<String, Value> {
        let properties: Map<_, _> =
            self.fields().map(|field| (field.name.clone(), short(&field.json))).collect();
        let required: Vec<&str> =
            self.fields().filter(|field| field.is_required).map(|field| &*field.name).collect();
        let schema = json!({ "properties": properties, "required": required, "additionalProperties": false });
        let mut schema = schema.as_object().cloned().unwrap_or_default();
        schema.insert("type".to_owned(), "object".into());
        schema
    }

    /// Makes the request of these arguments. An argument that is null is none.
    ///
    /// # Errors
    /// `Invalid`, for an argument that the operation does not take, or lacks.
    pub(crate) fn request(&self, mut arguments: Map<String, Value>) -> anyhow::Result<Request<Full<Bytes>>> {
        arguments.retain(|_, value| !value.is_null());
        if let Some(unknown) = arguments.keys().find(|name| self.fields().all(|field| field.name != **name)) {
            let known: Vec<&str> = self.fields().map(|field| &*field.name).collect();
            let message = format!("{} takes no argument `{unknown}`, but {}", self.name, known.join(", "));
            return Err(Error::invalid(message).into());
        }
        if let Some(missing) =
            self.fields().find(|field| field.is_required && !arguments.contains_key(&field.name))
        {
            return Err(Error::invalid(format!("the argument `{}` is missing", missing.name)).into());
        }
        for field in self.fields() {
            match (field.at, arguments.get_mut(&field.name)) {
                // Slashes are escaped again; the document says to write them so.
                (At::Path, Some(Value::String(text))) => *text = text.replace("%2F", "/"),
                (At::Path, Some(value)) => {
                    return Err(Error::invalid(format!("{}: {value} is not text", field.name)).into());
                }
                (At::Query, Some(value)) if !is_listed(value) => {
                    let message = format!("{}: {value} is neither a value nor a list of values", field.name);
                    return Err(Error::invalid(message).into());
                }
                _ => {}
            }
        }
        self.described.request(&arguments, Map::new())
    }

    /// Arguments that make the answer smaller, or continue it.
    pub(crate) fn less(&self) -> Vec<&'static str> {
        LESS.into_iter().filter(|name| self.fields().any(|field| field.name == *name)).collect()
    }

    /// The arguments: all fields but headers and [`NOT_TAKEN`].
    fn fields(&self) -> impl Iterator<Item = &'static Field> {
        let is_taken = |field: &&Field| field.at != At::Header && !NOT_TAKEN.contains(&&*field.name);
        self.described.fields.iter().filter(is_taken)
    }
}

/// Returns true for a single value, or a list of such, as a query takes it.
fn is_listed(value: &Value) -> bool {
    value.as_array().map_or_else(|| is_single(value), |items| items.iter().all(is_single))
}

/// Shortens a schema, since all tools are in each conversation: the first sentence of each description, and names of columns without those
/// of their intervals.
fn short(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| match (&**name, value) {
                ("description", Value::String(text)) => {
                    (name.clone(), text.split_inclusive(". ").next().unwrap_or_default().trim_end().into())
                }
                ("enum", Value::Array(names)) => (name.clone(), without_intervals(names)),
                _ => (name.clone(), short(value)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(values) => values.iter().map(short).collect(),
        other => other.clone(),
    }
}

/// Leaves out names that are another one and a suffix of intervals.
fn without_intervals(names: &[Value]) -> Value {
    let is_kept = |name: &&Value| {
        let name = name.as_str().unwrap_or_default();
        let metric = INTERVAL.iter().find_map(|suffix| name.strip_suffix(suffix));
        metric.is_none_or(|metric| !names.contains(&metric.into()))
    };
    names.iter().filter(is_kept).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        tools().into_iter().find(|tool| tool.name == name).unwrap()
    }

    #[test]
    fn tools_are_these_reading_operations() {
        let names: Vec<&str> = tools().into_iter().map(|tool| tool.name).collect();
        assert!(names.len() < 60, "{}", names.len());
        insta::assert_snapshot!(names.join("\n"));
    }

    #[test]
    fn schemas_stand_alone_and_stay_small() {
        let schemas = tools().into_iter().map(|tool| Value::Object(tool.input_schema()).to_string());
        let schemas: Vec<String> = schemas.collect();
        assert!(schemas.iter().all(|schema| !schema.contains("$ref")));
        let bytes: usize = schemas.iter().map(String::len).sum();
        assert!(bytes < 75_000, "{bytes}");
    }

    #[test]
    fn arguments_go_to_path_query_and_body() {
        let uri = |name: &str, arguments: Value| {
            let request = tool(name).request(arguments.as_object().cloned().unwrap());
            request.map(|request| request.uri().to_string()).map_err(|error| error.to_string())
        };
        let asked =
            json!({ "workspace": "credit/prod", "columns": ["day", "auc"], "last": "7d", "release": null });
        assert_eq!(
            uri("query_evaluations", asked).unwrap(),
            "/v1/workspaces/credit/prod/evaluations?last=7d&columns=day%2Cauc"
        );
        for model in ["credit/prod/churn", "credit%2Fprod%2Fchurn"] {
            assert_eq!(
                uri("show_model", json!({ "model": model })).unwrap(),
                "/v1/models/credit%2Fprod%2Fchurn"
            );
        }
        assert_eq!(
            uri("sql", json!({ "workspace": "credit/prod", "sql": "SELECT 1" })).unwrap(),
            "/v1/workspaces/credit/prod/sql"
        );
        assert_eq!(
            uri("sql", json!({ "workspace": "credit/prod" })).unwrap_err(),
            "the argument `sql` is missing"
        );
        for (run, why) in [(json!(""), "the run is empty"), (json!(5), "run: 5 is not text")] {
            assert_eq!(uri("show_run", json!({ "workspace": "credit/prod", "run": run })).unwrap_err(), why);
        }
        let of_object =
            uri("query_evaluations", json!({ "workspace": "credit/prod", "last": { "days": 7 } }));
        assert!(of_object.unwrap_err().starts_with("last: {"));
        let refused = uri("live", json!({ "workspace": "credit/prod", "day": 1 })).unwrap_err();
        assert!(refused.starts_with("live takes no argument `day`, but workspace"), "{refused}");
    }
}
