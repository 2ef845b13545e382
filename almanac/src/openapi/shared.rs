//! Moves repeated parts of an OpenAPI document to its components.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

/// Approximate bytes of a reference.
const REFERENCE_BYTES: usize = 45;

/// A parameter, a response, a header or a schema: its group of components, and its text.
type Part = (&'static str, String);

/// Moves repeated parts of `paths` and `components` to `components`, where a reference to each is shorter.
pub(super) fn share<'a>(paths: impl Iterator<Item = &'a mut Value>, components: &mut Value) {
    let mut nodes: Vec<&mut Value> = paths.collect();
    nodes.push(components);
    let mut sharing = Sharing::default();
    for node in &mut nodes {
        sharing.count(node, "value");
    }
    for node in nodes {
        sharing.refer(node);
    }
    for (group, name, part) in sharing.moved {
        components[group][name] = part;
    }
}

#[derive(Default)]
struct Sharing {
    /// Number of places of each part, and its shortest name among them.
    said: HashMap<Part, (usize, String)>,
    /// Name of each part that became a component.
    names: HashMap<Part, String>,
    /// Number of parts of a group under each name.
    called: BTreeMap<(&'static str, String), usize>,
    moved: Vec<(&'static str, String, Value)>,
}

impl Sharing {
    fn count(&mut self, node: &mut Value, name: &str) {
        each_part(node, name, &mut |group, name, part| {
            let (times, shortest) =
                self.said.entry((group, part.to_string())).or_insert_with(|| (0, name.to_owned()));
            *times += 1;
            if name.len() < shortest.len() {
                name.clone_into(shortest);
            }
            // Each part of it is then said in one place more.
            if *times == 1 {
                self.count(part, name);
            }
        });
    }

    fn refer(&mut self, node: &mut Value) {
        each_part(node, "", &mut |group, _, part| {
            let key = (group, part.to_string());
            let times = self.said.get(&key).map_or(0, |(times, _)| *times);
            if key.1.len() * times.saturating_sub(1) <= REFERENCE_BYTES * times {
                return self.refer(part);
            }
            let called = match self.names.get(&key) {
                Some(called) => called.clone(),
                None => self.move_out(key, part.take()),
            };
            *part = json!({ "$ref": format!("#/components/{group}/{called}") });
        });
    }

    /// Moves a part to the components, and returns its name. Names are unique: components written by hand begin with a capital.
    fn move_out(&mut self, key: Part, mut part: Value) -> String {
        self.refer(&mut part);
        let name = self.said.get(&key).map_or("", |(_, name)| name.as_str());
        let is_taken = |char: &char| char.is_ascii_alphanumeric() || "-_.".contains(*char);
        let name: String = name.chars().filter(is_taken).collect::<String>().to_ascii_lowercase();
        let number = self.called.entry((key.0, name.clone())).or_default();
        *number += 1;
        let called = if *number == 1 { name } else { format!("{name}-{number}") };
        self.moved.push((key.0, called.clone(), part));
        self.names.insert(key, called.clone());
        called
    }
}

/// Calls `each` with the outermost parts of a node, their groups and names. A part without a name has that of the node around it.
fn each_part(node: &mut Value, name: &str, each: &mut dyn FnMut(&'static str, &str, &mut Value)) {
    let id = node.get("operationId").and_then(Value::as_str).map(str::to_owned);
    let name = id.as_deref().unwrap_or(name);
    for (key, value) in node.as_object_mut().into_iter().flatten() {
        let group = match key.as_str() {
            "parameters" => "parameters",
            "responses" => "responses",
            "headers" => "headers",
            _ => "schemas",
        };
        match (key.as_str(), value) {
            ("example" | "examples" | "default", _) => {}
            ("parameters" | "anyOf" | "allOf", Value::Array(all)) => {
                for one in all {
                    let name = one["name"].as_str().unwrap_or(name).to_owned();
                    each(group, &name, one);
                }
            }
            ("responses", Value::Object(all)) => {
                for one in all.values_mut() {
                    each(group, name, one);
                }
            }
            ("headers" | "properties", Value::Object(all)) => {
                for (name, one) in all {
                    each(group, name, one);
                }
            }
            ("schema" | "items" | "additionalProperties" | "propertyNames", one @ Value::Object(_)) => {
                each(group, name, one);
            }
            (_, value) => each_part(value, name, each),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_twice_is_said_once() {
        let long = json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", "maxLength": 128, "minLength": 1 });
        let parameter =
            |at: &str| json!({ "name": "release", "in": at, "schema": long, "description": "x".repeat(100) });
        let operation = |id: &str, at: &str| {
            json!({ "get": { "operationId": id, "parameters": [parameter(at)], "responses": { "200": { "content": {
                "application/json": { "example": { "items": long }, "schema": { "type": "object", "properties": { format!("release_{id}"): long } } },
            } } } } })
        };
        let mut paths = [operation("one", "query"), operation("two", "query"), operation("three", "header")];
        let mut components = json!({ "schemas": { "Short": { "properties": { "a": { "type": "string" }, "b": { "type": "string" } } } } });
        let short = components["schemas"]["Short"].clone();
        share(paths.iter_mut(), &mut components);
        let refers = |group: &str, name: &str| json!({ "$ref": format!("#/components/{group}/{name}") });
        let said = |path: usize| &paths[path]["get"]["parameters"][0];
        assert_eq!(said(0), &refers("parameters", "release"));
        assert_eq!(said(1), said(0));
        assert_eq!(
            (&said(2)["in"], &said(2)["schema"]),
            (&json!("header"), &refers("schemas", "release")),
            "it is said once"
        );
        assert_eq!(components["parameters"]["release"]["schema"], refers("schemas", "release"));
        assert_eq!(components["schemas"]["release"], long);
        let content = &paths[0]["get"]["responses"]["200"]["content"]["application/json"];
        assert_eq!(content["schema"]["properties"]["release_one"], refers("schemas", "release"));
        assert_eq!(content["example"]["items"], long, "an example stays as it is");
        assert_eq!(components["schemas"]["Short"], short, "a reference would be longer");
    }
}
