//! Errors of serde in the words of a caller: a field by its path, and types as JSON names them.

/// Message of an error in a JSON body. One about its form keeps the place.
pub(crate) fn json(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, why) = (error.path().to_string(), error.inner().to_string());
    if !error.inner().is_data() {
        return why;
    }
    field(&path, why.rsplit_once(" at line ").map_or(&*why, |(why, _)| why))
}

/// Message of an error about the field at a path; a dot or nothing is the whole.
pub(crate) fn field(path: &str, why: &str) -> String {
    let path = if path == "." { "" } else { path };
    if let Some(name) = why.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let separator = if path.is_empty() { "" } else { "." };
        return format!("{path}{separator}{name}: it is missing");
    }
    let why = reason(why);
    if path.is_empty() { why } else { format!("{path}: {why}") }
}

/// A reason without types of Rust.
fn reason(why: &str) -> String {
    if let Some((name, names)) =
        why.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("{name} is none of {}", names.trim_start_matches("one of ").replace(" or ", ", "));
    }
    let typed = why.strip_prefix("invalid type: ").or_else(|| why.strip_prefix("invalid value: "));
    let Some((found, expected)) = typed.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return why.to_owned();
    };
    let expected = match expected {
        "f32" | "f64" | "a JSON number" => "a number",
        "i8" | "i16" | "i32" | "i64" | "isize" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "a string" | "a borrowed string" | "string or map" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        structure if structure.starts_with("struct ") => "an object",
        other => other,
    };
    let is_integer = found.starts_with("integer ");
    let found = match found {
        "map" => "an object",
        "sequence" => "a list",
        _ => ["string ", "floating point ", "integer ", "boolean "]
            .into_iter()
            .find_map(|kind| found.strip_prefix(kind))
            .unwrap_or(found),
    };
    match is_integer && expected == "a whole number" {
        true => format!("{found} is out of range"),
        false => format!("{found} is not {expected}"),
    }
}
