//! Lines of SageMaker Model Monitor: captured requests of an endpoint, which are predictions, and ground truth, which are outcomes.
//! A line becomes an object for each of its rows, with the key, the time, and the values at the paths that options name as columns:
//! `output.predictions[*].score` of JSON, `output[0]` and `input[3]` for cells of CSV.

use base64::{Engine, prelude::BASE64_STANDARD};
use event::Kind;
use serde::Deserialize;
use serde_json::{Deserializer, Map, Value};

use super::source::cells_of;
use crate::builder::{
    names::{Names, Target},
    row::FieldError,
};

/// Line of a file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    capture_data: Option<Exchange>,
    ground_truth_data: Option<Data>,
    event_metadata: EventMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exchange {
    endpoint_input: Option<Data>,
    endpoint_output: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    data: String,
    encoding: String,
    #[serde(default)]
    observed_content_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventMetadata {
    event_id: String,
    inference_id: Option<String>,
    inference_time: Option<String>,
}

/// Returns whether a JSON object is such a line, as rejects have it, and not one of its rows.
pub(super) fn is_line(json: &str) -> bool {
    serde_json::from_str::<Line>(json).is_ok()
}

/// Returns the objects of the rows of a line.
///
/// # Errors
/// The fault of the line, such as another kind than that of the import.
pub(super) fn rows(names: &Names, line: &[u8]) -> Result<Vec<String>, FieldError> {
    let wrong = |error| FieldError::of_row(format!("is not a line of SageMaker Model Monitor: {error}"));
    let line: Line = serde_json::from_slice(line).map_err(wrong)?;
    let [input, output] = match (names.kind, line.capture_data, line.ground_truth_data) {
        (Kind::Outcomes, _, Some(truth)) => [Body::Absent, Body::of("groundTruthData", Some(truth))?],
        (Kind::Outcomes, ..) => {
            let message = "has no groundTruthData; import captured requests with --kind predictions";
            return Err(FieldError::of_row(message));
        }
        (_, Some(Exchange { endpoint_input, endpoint_output }), _) => {
            [Body::of("endpointInput", endpoint_input)?, Body::of("endpointOutput", endpoint_output)?]
        }
        (_, None, _) => {
            let message = "has no captureData; import ground truth with --kind outcomes";
            return Err(FieldError::of_row(message));
        }
    };
    let asked = names.asked.iter().filter_map(|asked| Some((asked.column.as_str(), path(&asked.column)?)));
    let values = asked.map(|(column, (is_input, path))| {
        let body = if is_input { &input } else { &output };
        (column, body.values(&path), is_input)
    });
    let asked: Vec<(&str, Values, bool)> = values.collect();
    let of_output = || asked.iter().filter(|(.., is_input)| !is_input);
    let is_one_answer = of_output().all(|(_, values, _)| values.rows().is_none());
    let answer = of_output().next().map(|(column, ..)| *column).filter(|_| is_one_answer);
    let values: Vec<(&str, Values)> = asked.into_iter().map(|(column, values, _)| (column, values)).collect();
    let counts = values.iter().map(|(column, values)| (*column, values.rows()));
    let counts = counts.chain([("output", output.values(&[]).rows())]);
    let counts: Vec<_> = counts.filter_map(|(column, rows)| Some((column, rows?))).collect();
    let (first, count) = counts.first().copied().unwrap_or(("output", 1));
    if let Some((other, rows)) = counts.iter().find(|(_, rows)| *rows != count) {
        let message = format!("has {count} rows in `{first}`, but {rows} in `{other}`");
        return Err(FieldError::of_row(message));
    }
    if let Some(answer) = answer.filter(|_| count != 1 && output.values(&[]).rows().is_none()) {
        let message = format!("has {count} rows in `{first}`, but one answer in `{answer}`");
        return Err(FieldError::of_row(message));
    }
    let EventMetadata { event_id, inference_id, inference_time } = line.event_metadata;
    let key = inference_id.filter(|id| !id.is_empty()).unwrap_or(event_id);
    let is_read = |name: &str| matches!(names.find(name), Some(Target::Field(_) | Target::Asked(_)));
    let row = |at: usize| {
        let mut object = Map::new();
        if is_read("key") {
            let key = if count == 1 { key.clone() } else { format!("{key}:{}", at + 1) };
            object.insert("key".into(), key.into());
        }
        if let Some(time) = inference_time.as_ref().filter(|_| is_read("predicted_at")) {
            object.insert("predicted_at".into(), time.as_str().into());
        }
        let values = values.iter().filter_map(|(column, values)| Some((*column, values.row(at)?)));
        object.extend(values.map(|(column, value)| (column.to_owned(), value.clone())));
        Value::Object(object).to_string()
    };
    Ok((0..count).map(row).collect())
}

/// Content of a request or of an answer.
enum Body {
    Absent,
    /// JSON document.
    Document(Value),
    /// Records of CSV, as arrays of their cells, or documents of JSON Lines.
    Rows(Vec<Value>),
}

impl Body {
    /// Decodes the content of `field`.
    fn of(field: &str, data: Option<Data>) -> Result<Self, FieldError> {
        let Some(Data { data, encoding, observed_content_type }) = data else { return Ok(Self::Absent) };
        let wrong = |message: &str| FieldError::new(field, message);
        let (text, is_json) = match encoding.to_ascii_uppercase().as_str() {
            "CSV" => (data, false),
            "JSON" => (data, true),
            "BASE64" => {
                let bytes = BASE64_STANDARD.decode(data.trim()).map_err(|_| wrong("is not in base 64"))?;
                let text =
                    String::from_utf8(bytes).map_err(|_| wrong("is not text, which alone can be read"))?;
                (text, observed_content_type.to_ascii_lowercase().contains("json"))
            }
            other => {
                return Err(wrong(&format!("has the encoding {other}, which is none of CSV, JSON, BASE64")));
            }
        };
        if !is_json {
            let records = text.lines().filter(|line| !line.trim().is_empty());
            let cells = records.map(|line| cells_of(line.as_bytes(), b',').map(Value::from));
            return cells.collect::<Option<_>>().map(Self::Rows).ok_or_else(|| wrong("is not CSV"));
        }
        let documents = Deserializer::from_str(&text).into_iter::<Value>().collect::<Result<Vec<_>, _>>();
        let mut documents = documents.map_err(|error| wrong(&format!("is not JSON: {error}")))?;
        Ok(match documents.len() {
            1 => Self::Document(documents.remove(0)),
            _ => Self::Rows(documents),
        })
    }

    /// Values at a path.
    fn values(&self, path: &[Step]) -> Values<'_> {
        match self {
            Self::Absent => Values::Common(None),
            Self::Document(document) => Values::of(std::slice::from_ref(document), path),
            Self::Rows(rows) => Values::of(rows, path),
        }
    }
}

/// Values of a column.
enum Values<'a> {
    /// One value of all rows.
    Common(Option<&'a Value>),
    /// A value of each row.
    Each(Vec<Option<&'a Value>>),
}

impl<'a> Values<'a> {
    /// Values at a path in documents.
    fn of(documents: &'a [Value], path: &[Step]) -> Self {
        let mut found: Vec<_> = documents.iter().flat_map(|document| at(document, path)).collect();
        match documents.len() == 1 && !path.contains(&Step::Each) {
            true => Self::Common(found.pop().flatten()),
            false => Self::Each(found),
        }
    }

    /// Number of rows, if each has a value of its own.
    fn rows(&self) -> Option<usize> {
        match self {
            Self::Common(_) => None,
            Self::Each(values) => Some(values.len()),
        }
    }

    fn row(&self, at: usize) -> Option<&'a Value> {
        match self {
            Self::Common(value) => *value,
            Self::Each(values) => values.get(at).copied().flatten(),
        }
    }
}

/// Step of a path: `.name`, `[3]` or `[*]`.
#[derive(Debug, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
    /// All elements, each of which is a row.
    Each,
}

/// Parses the path that a column names, and whether it is one of the input; `$` is the output, as in JSONPath. `None` if the column
/// names none.
fn path(column: &str) -> Option<(bool, Vec<Step>)> {
    let (root, mut rest) = column.split_at(column.find(['.', '[']).unwrap_or(column.len()));
    let is_input = match root {
        "input" => true,
        "output" | "$" => false,
        _ => return None,
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.strip_prefix('[') {
            Some(inner) => {
                let (index, rest) = inner.split_once(']')?;
                let step = if index == "*" { Step::Each } else { Step::Index(index.parse().ok()?) };
                (step, rest)
            }
            None => {
                let name = rest.strip_prefix('.')?;
                let (name, rest) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
                (Step::Name(name.to_owned()), rest)
            }
        };
        steps.push(step);
    }
    Some((is_input, steps))
}

/// Values at a path in a document, one of each element; `None` where an element has none.
fn at<'a>(document: &'a Value, path: &[Step]) -> Vec<Option<&'a Value>> {
    let mut found = vec![Some(document)];
    for step in path {
        found = match step {
            Step::Name(name) => found.into_iter().map(|value| value?.get(name)).collect(),
            Step::Index(index) => found.into_iter().map(|value| value?.get(index)).collect(),
            Step::Each => {
                found.into_iter().flatten().filter_map(Value::as_array).flatten().map(Some).collect()
            }
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::file::Mapping;

    fn names(kind: Kind, renames: &[(&str, &str)]) -> Names {
        let renames = renames.iter().map(|(field, column)| ((*field).into(), (*column).into())).collect();
        Names::of(kind, &Mapping { renames, ..Mapping::default() }).unwrap()
    }

    fn capture(output: &str, encoding: &str, content_type: &str) -> Vec<u8> {
        let input = json!({ "observedContentType": "text/csv", "mode": "INPUT", "data": "41,north\n", "encoding": "CSV" });
        let output = json!({ "observedContentType": content_type, "mode": "OUTPUT", "data": output, "encoding": encoding });
        let metadata =
            json!({ "eventId": "e-1", "inferenceId": "loan-1", "inferenceTime": "2026-06-01T09:00:00Z" });
        let data = json!({ "endpointInput": input, "endpointOutput": output });
        json!({ "captureData": data, "eventMetadata": metadata, "eventVersion": "0" })
            .to_string()
            .into_bytes()
    }

    fn read(names: &Names, line: &[u8]) -> Result<Vec<Value>, FieldError> {
        Ok(rows(names, line)?.iter().map(|row| serde_json::from_str(row).unwrap()).collect())
    }

    #[test]
    fn element_without_a_value_keeps_its_place() {
        let columns = [("score", "output.of[*].score"), ("tag.who", "output.of[*].who")];
        let names = names(Kind::Predictions, &columns);
        let text = r#"{"of": [{"score": 0.1, "who": "one"}, {"who": "two"}, {"score": 0.3}]}"#;
        let rows = read(&names, &capture(text, "JSON", "application/json")).unwrap();
        let of = |name: &str| rows.iter().map(|row| row.get(name).cloned()).collect::<Vec<_>>();
        assert_eq!(of(columns[0].1), [Some(json!(0.1)), None, Some(json!(0.3))]);
        assert_eq!(of(columns[1].1), [Some(json!("one")), Some(json!("two")), None]);
        assert_eq!(of("key")[2], Some(json!("loan-1:3")));
    }

    #[test]
    fn one_answer_is_of_one_request() {
        let both = |output: &str| {
            let names = names(Kind::Predictions, &[("score", output), ("feature.age", "input[0]")]);
            let line = capture("0.1,0.2,0.3", "CSV", "text/csv");
            let line = String::from_utf8(line).unwrap().replace("41,north", "41\\n42\\n43");
            read(&names, line.as_bytes()).map(|rows| rows.len())
        };
        assert_eq!(both("output[*]").unwrap(), 3);
        assert!(both("output[1]").unwrap_err().message.contains("has 3 rows in `input[0]`"));
    }

    #[test]
    fn captures_become_predictions_by_their_encoding() {
        let csv = names(Kind::Predictions, &[("score", "output[1]"), ("feature.age", "input[0]")]);
        let expected = json!({ "key": "loan-1", "predicted_at": "2026-06-01T09:00:00Z", "output[1]": "0.9", "input[0]": "41" });
        let base64 = BASE64_STANDARD.encode("1,0.9\n");
        assert_eq!(
            read(&csv, &capture("1,0.9", "CSV", "text/csv")).unwrap(),
            std::slice::from_ref(&expected)
        );
        assert_eq!(read(&csv, &capture(&base64, "BASE64", "text/csv; charset=utf-8")).unwrap(), [expected]);
        let json =
            names(Kind::Predictions, &[("score", "$.predictions[0].score"), ("label", "output.labels[0]")]);
        let text = r#"{"predictions": [{"score": 0.25}], "labels": ["no"]}"#;
        let [row] = &read(&json, &capture(text, "JSON", "application/json")).unwrap()[..] else { panic!() };
        assert_eq!((&row["$.predictions[0].score"], &row["output.labels[0]"]), (&json!(0.25), &json!("no")));
    }

    #[test]
    fn requests_of_several_rows_number_their_keys() {
        let each = names(Kind::Predictions, &[("score", "output.scores[*]"), ("tag.branch", "input[1]")]);
        let found = read(&each, &capture(r#"{"scores": [0.1, 0.2]}"#, "JSON", "application/json")).unwrap();
        let of = |name: &str| found.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("key"), [json!("loan-1:1"), json!("loan-1:2")]);
        assert_eq!(
            (of("output.scores[*]"), of("input[1]")),
            (vec![json!(0.1), json!(0.2)], vec![json!("north"); 2])
        );
        let csv = names(Kind::Predictions, &[("score", "output[0]")]);
        assert_eq!(read(&csv, &capture("0.1\n0.2\n0.3\n", "CSV", "text/csv")).unwrap().len(), 3);
        let lines = read(&csv, &capture("[0.1]\n[0.2]", "JSON", "application/jsonlines")).unwrap();
        assert_eq!(lines[1]["output[0]"], json!(0.2));
        let both = names(Kind::Predictions, &[("score", "output.a[*]"), ("value", "output.b[*]")]);
        let error = read(&both, &capture(r#"{"a": [1, 2], "b": [1]}"#, "JSON", "")).unwrap_err();
        assert_eq!(error.message, "has 2 rows in `output.a[*]`, but 1 in `output.b[*]`");
    }

    #[test]
    fn ground_truth_becomes_outcomes() {
        let truth = |encoding: &str| {
            let data = json!({ "data": "1", "encoding": encoding });
            json!({ "groundTruthData": data, "eventMetadata": { "eventId": "loan-1" }, "eventVersion": "0" })
                .to_string()
        };
        let outcomes = names(Kind::Outcomes, &[("label", "output[0]")]);
        let found = read(&outcomes, truth("CSV").as_bytes()).unwrap();
        assert_eq!(found, [json!({ "key": "loan-1", "output[0]": "1" })]);
        let message = |names: &Names, line: &[u8]| read(names, line).unwrap_err();
        let error = message(&outcomes, truth("XML").as_bytes());
        assert_eq!(error.field.as_deref(), Some("groundTruthData"));
        assert_eq!(error.message, "has the encoding XML, which is none of CSV, JSON, BASE64");
        assert!(message(&outcomes, &capture("1", "CSV", "")).message.contains("has no groundTruthData"));
        let predictions = names(Kind::Predictions, &[("score", "output[0]")]);
        assert!(message(&predictions, truth("CSV").as_bytes()).message.contains("has no captureData"));
        assert!(message(&predictions, &capture("{", "JSON", "")).message.starts_with("is not JSON: "));
        assert!(
            message(&predictions, b"{}").message.starts_with("is not a line of SageMaker Model Monitor: ")
        );
    }

    #[test]
    fn other_columns_name_no_path() {
        assert_eq!(path("input[3]"), Some((true, vec![Step::Index(3)])));
        let steps = vec![Step::Name("a".into()), Step::Each, Step::Name("b".into())];
        assert_eq!(path("$.a[*].b"), Some((false, steps)));
        for other in ["score", "outputs[0]", "output[x]", "output[0]x"] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
