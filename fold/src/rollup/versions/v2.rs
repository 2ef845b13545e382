//! Version 2 had sketches of other cells, written as arrays of numbers; sketches of today read and write them as well.
//! Its sums were of a narrower range: where a sum was too large it is `null`. By tag it kept twentieths of scores
//! in the place of sketches, all figures of a value in one cell.

use serde_json::{Value, json};

/// The breakdown by tag as version 3 wrote it: counts, sums and scores of a value each in a breakdown of their own.
pub(super) fn tag(state: Value) -> Result<Value, String> {
    let counts = |cell: &Value| Ok(json!([number(&cell["predictions"]["n"]), number(&cell["metrics"])]));
    let head = |cell: &Value| match &cell["predictions"] {
        Value::Null => Ok(json!({"n": 0, "labelled": 0})),
        head => Ok(head.clone()),
    };
    let scores = |cell: &Value| Ok(twentieths(&cell["score_bins"]));
    let values = |of: &Value| {
        let (counts, heads, scores) = (mapped(of, counts)?, mapped(of, head)?, mapped(of, scores)?);
        Ok(json!({"counts": counts, "heads": heads, "scores": scores}))
    };
    Ok(json!({ "tags": mapped(&state["tags"], values)? }))
}

/// A count, which may be absent.
fn number(count: &Value) -> u64 {
    count.as_u64().unwrap_or(0)
}

/// A breakdown with other values.
fn mapped(breakdown: &Value, value: impl Fn(&Value) -> Result<Value, String>) -> Result<Value, String> {
    let names = breakdown["names"].as_object().ok_or("a breakdown has no names")?;
    let names = names.iter().map(|(name, of)| Ok((name.clone(), value(of)?)));
    let names = names.collect::<Result<serde_json::Map<_, _>, String>>()?;
    match (&breakdown["beyond"], &breakdown["others"]) {
        (Value::Null, _) => Ok(json!({ "names": names })),
        (beyond, others) => Ok(json!({"names": names, "beyond": beyond, "others": value(others)?})),
    }
}

/// A sketch of how many scores lie in which twentieth of [0, 1].
fn twentieths(counts: &Value) -> Value {
    let counts = counts.as_array().into_iter().flatten().map(number);
    let (mut sketch, mut last) = (Vec::<u64>::new(), 0);
    for (cell, n) in (0u64..).zip(counts).filter(|(_, n)| *n > 0) {
        sketch.extend([cell - last, n]);
        last = cell;
    }
    if sketch.is_empty() {
        return json!("");
    }
    // Shift 0 stands for twentieths.
    sketch.insert(0, 0);
    json!(sketch)
}
