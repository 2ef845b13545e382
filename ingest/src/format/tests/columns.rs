//! Columns that do not fit each other, and arrays of other types than an event has.

use super::*;

#[test]
fn columns_must_fit_each_other() {
    let told = |format, body: &str| read(format, body.as_bytes()).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            told(Format::Json, r#"{"key":["a","b"],"score":[1]}"#),
            told(Format::Json, r#"{"key":["a"],"score":[1,0,"x",[1]]}"#),
            told(Format::Json, r#"{"key":["a"],"key":["a"]}"#),
            told(Format::Json, r#"{"tags":{"a":["a"]},"tag.a":["a"]}"#),
            told(Format::Json, r#"{"kex":["a"]}"#),
            told(Format::Json, r#"{"key":"a"}"#),
            told(Format::Json, r#"{"key":["a"]} {}"#),
            told(Format::Json, r#"{"key":["a"#),
            told(Format::Json, r#"{"key":["a" "b"]}"#),
            told(Format::Json, "  "),
            told(Format::Json, "true"),
            told(Format::Json, "[{}, oops]"),
            told(Format::Json, "[{}"),
            told(Format::Csv, "key,kex\na,b\n"),
            told(Format::Csv, "key,key\na,b\n"),
            told(Format::Csv, "key,predicted_at,release,score\na,2013-06-01T04:30:00Z,v1\n"),
            told(Format::Csv, "key,predicted_at,release,score\na,2013-06-01T04:30:00Z,v1,high\n"),
        ]
        .join("\n")
    );
}

/// Fills a builder with columns of a body in Arrow, and checks it.
fn filled(kind: Kind, columns: &[(&str, &dyn polars_arrow::array::Array)]) -> Result<Batch, Refused> {
    let mut out = Collector::new(kind, now(), Reading { loose_text: true, ..Reading::default() });
    let places = collect::places(&Names::new(kind), columns.iter().map(|(name, _)| *name))?;
    out.builder.add_rows(1, columns[0].1.len());
    for (place, (_, array)) in places.iter().zip(columns) {
        frame::fill(&mut out.builder, place, 0, *array)?;
    }
    out.finish()
}

#[test]
fn arrays_of_other_types_are_converted_by_meaning() {
    use polars_arrow::{
        array::{BooleanArray, DictionaryArray, PrimitiveArray, Utf8Array},
        datatypes::{ArrowDataType, TimeUnit},
    };
    let keys = PrimitiveArray::<i64>::from_vec(vec![7, 8, 9]);
    let day = Timestamp::parse("2013-06-01T00:00:00Z").unwrap().day();
    let days = PrimitiveArray::<i32>::from_slice([day.number(); 3]).to(ArrowDataType::Date32);
    let seconds = PrimitiveArray::<i64>::from_slice([day.start().micros() / 1_000_000; 3])
        .to(ArrowDataType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".into())));
    let words = Utf8Array::<i32>::from_slice(["late", "early"]);
    let codes = PrimitiveArray::<u8>::from(vec![Some(1), None, Some(0)]);
    let labels = DictionaryArray::try_from_keys(codes, words.boxed(), false).unwrap();
    let values = PrimitiveArray::<u64>::from(vec![None, Some(u64::MAX), Some(3)]);
    let batch = filled(
        Kind::Outcomes,
        &[
            ("key", &keys),
            ("predicted_on", &days),
            ("observed_at", &seconds),
            ("label", &labels),
            ("value", &values),
        ],
    )
    .unwrap();
    let column = |name: &str| batch.columns.column(name).unwrap();
    assert_eq!(batch.days, [day; 3]);
    assert_eq!(column("key").text(2), Some("9"));
    assert_eq!(column("observed_at").time(0), Some(day.start().micros()));
    assert_eq!([0, 1, 2].map(|row| column("label").text(row)), [Some("early"), None, Some("late")]);
    assert_eq!([0, 1, 2].map(|row| column("value").float(row)), [None, Some(u64::MAX as f64), Some(3.0)]);
    let names = Utf8Array::<i32>::from_slice(["n", "n", "n"]);
    let numbers = PrimitiveArray::<i8>::from_slice([1, 2, 3]);
    let metrics: [(&str, &dyn polars_arrow::array::Array); 5] = [
        ("name", &names),
        ("measured_at", &seconds),
        ("value", &numbers),
        ("key", &keys),
        ("predicted_on", &days),
    ];
    let metrics = filled(Kind::Metrics, &metrics).unwrap();
    assert_eq!(metrics.columns.column("predicted_on").unwrap().text(1), Some("2013-06-01"));
    let truths = BooleanArray::from_slice([true, false, true]);
    let told = |label: &dyn polars_arrow::array::Array, on: &dyn polars_arrow::array::Array| {
        let columns: [(&str, &dyn polars_arrow::array::Array); 4] =
            [("key", &keys), ("predicted_on", on), ("observed_at", &seconds), ("label", label)];
        filled(Kind::Outcomes, &columns)
    };
    assert_eq!(told(&truths, &days).unwrap().columns.column("label").unwrap().text(1), Some("false"));
    let floats = PrimitiveArray::<f32>::from_vec(vec![0.5, 1.0, 2.0]);
    insta::assert_snapshot!(
        [told(&floats, &days), told(&truths, &keys), told(&truths, &truths)]
            .map(|refused| refused.unwrap_err().to_string())
            .join("\n")
    );
    let local = |second: i64| {
        PrimitiveArray::<i64>::from_slice([second; 3]).to(ArrowDataType::Timestamp(TimeUnit::Second, None))
    };
    assert!(told(&truths, &local(1)).unwrap_err().to_string().contains("no time zone"));
    let midnight = local(day.start().micros() / 1_000_000);
    assert_eq!(told(&truths, &midnight).unwrap().days, [day; 3], "a day without a zone is that day");
}

#[test]
fn half_floats_decimals_and_millisecond_dates_are_converted() {
    use polars_arrow::{
        array::{Array, Float16Array, PrimitiveArray, Utf8Array},
        datatypes::ArrowDataType,
        types::NativeType,
    };
    let keys = PrimitiveArray::<i64>::from_vec(vec![7, 8, 9]);
    let day = Timestamp::parse("2013-06-01T00:00:00Z").unwrap().day();
    let millis =
        PrimitiveArray::<i64>::from_slice([day.start().micros() / 1_000; 3]).to(ArrowDataType::Date64);
    let labels = Utf8Array::<i32>::from_slice(["late"; 3]);
    let bits = [0x3800_u16, 0x3400, 0xc000];
    let halves =
        Float16Array::from_vec(bits.map(|half| NativeType::from_le_bytes(half.to_le_bytes())).to_vec());
    let cents = PrimitiveArray::<i128>::from(vec![Some(1_234), None, Some(-10_i128.pow(20) - 1)])
        .to(ArrowDataType::Decimal(38, 2));
    let value = |values: &dyn Array| {
        let columns: [(&str, &dyn Array); 5] = [
            ("key", &keys),
            ("predicted_on", &millis),
            ("observed_at", &millis),
            ("label", &labels),
            ("value", values),
        ];
        let batch = filled(Kind::Outcomes, &columns).unwrap();
        assert_eq!(batch.days, [day; 3]);
        assert_eq!(batch.columns.column("observed_at").unwrap().time(2), Some(day.start().micros()));
        [0, 1, 2].map(|row| batch.columns.column("value").unwrap().float(row))
    };
    assert_eq!(value(&halves), [Some(0.5), Some(0.25), Some(-2.0)]);
    assert_eq!(value(&cents), [Some(12.34), None, Some(-1e18)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Labels and tags as keys of a dictionary give the same events as its texts: good and bad ones, such as become others, and
    /// also more than a byte counts.
    #[test]
    fn a_dictionary_is_what_it_stands_for(
        texts in prop::collection::vec(prop_oneof![Just(None), "[a-c]{0,18}".prop_map(Some), " ?(True|1[.]0*|a) ?".prop_map(Some)], 1..8),
        others in prop_oneof![Just(0..0u32), Just(0..300u32)],
        rows in prop::collection::vec(prop::option::weighted(0.9, any::<prop::sample::Index>()), 1..40),
    ) {
        use polars_arrow::array::{Array, DictionaryArray, PrimitiveArray, Utf8ViewArray};
        let mut rows: Vec<_> = rows.iter().map(|row| row.map(|row| row.index(texts.len()) as u32)).collect();
        rows.extend(others.clone().map(|at| Some(texts.len() as u32 + at)));
        let repeated = rows.clone();
        rows.extend(repeated);
        let texts: Vec<_> = texts.into_iter().chain(others.map(|at| Some(format!("one of many, {at}")))).collect();
        let codes = PrimitiveArray::<u32>::from(rows.clone());
        let coded = DictionaryArray::try_from_keys(codes, Utf8ViewArray::from_slice(&texts).boxed(), false).unwrap();
        let plain: Vec<_> = rows.iter().map(|row| texts[(*row)? as usize].as_deref()).collect();
        let plain = Utf8ViewArray::from_slice(plain);
        let all = |text: &str| Utf8ViewArray::from_slice_values(vec![text; rows.len()]);
        let (keys, times, releases) = (all("k"), all("2013-06-01T04:30:00Z"), all("v1"));
        let read = |texts: &dyn Array| filled(Kind::Predictions, &[
            ("key", &keys), ("predicted_at", &times), ("release", &releases), ("label", texts), ("tag.branch", texts),
        ]);
        prop_assert_eq!(read(&coded), read(&plain));
    }
}

#[test]
fn what_is_retracted_says_so_in_every_format() {
    use polars_arrow::array::{BooleanArray, Utf8Array};
    let texts = |text: &str| Utf8Array::<i32>::from_slice([text, text]);
    let (keys, times, releases) = (texts("a"), texts("2013-06-01T04:30:00Z"), texts("v1"));
    let reasons = Utf8Array::<i32>::from([Some("wrong"), None]);
    let truths = BooleanArray::from([Some(true), None]);
    let labels = Utf8Array::<i32>::from([None, Some("late")]);
    let arrow = |truths: &dyn polars_arrow::array::Array| {
        let columns: [(&str, &dyn polars_arrow::array::Array); 6] = [
            ("key", &keys),
            ("predicted_at", &times),
            ("release", &releases),
            ("label", &labels),
            ("retracted", truths),
            ("reason", &reasons),
        ];
        filled(Kind::Predictions, &columns)
    };
    let row = r#""key":"a","predicted_at":"2013-06-01T04:30:00Z","release":"v1""#;
    let rows = |told: &str, other: &str| format!("[{{{row},{told}}},{{{row},\"label\":\"late\"{other}}}]");
    let json = rows(r#""retracted":true,"reason":"wrong""#, r#","retracted":null"#);
    let columns = concat!(
        r#"{"key":["a","a"],"predicted_at":["2013-06-01T04:30:00Z","2013-06-01T04:30:00Z"],"release":["v1","v1"],"#,
        r#""retracted":["true",null],"reason":["wrong",null],"label":[null,"late"]}"#,
    );
    let csv = concat!(
        "key,predicted_at,release,label,retracted,reason\n",
        "a,2013-06-01T04:30:00Z,v1,,true,wrong\na,2013-06-01T04:30:00Z,v1,late,,\n",
    );
    let batch = arrow(&truths).unwrap();
    let said = |name: &str| [0, 1].map(|row| batch.columns.column(name).unwrap().text(row));
    assert_eq!((said("retracted"), said("reason")), ([Some("true"), None], [Some("wrong"), None]));
    for (format, body) in [(Format::Json, &*json), (Format::Json, columns), (Format::Csv, csv)] {
        assert_eq!(read(format, body.as_bytes()).unwrap().columns, batch.columns, "{body}");
    }
    let refused = |told: &str| match read(Format::Json, rows(told, "").as_bytes()).unwrap_err() {
        Refused::Rows { errors, .. } => errors
            .iter()
            .map(|error| format!("{} {}", error.field.as_deref().unwrap_or("-"), error.message))
            .collect::<Vec<_>>()
            .join("; "),
        other => other.to_string(),
    };
    let too_long = format!(r#""retracted":true,"reason":"{}""#, "x".repeat(1_025));
    insta::assert_snapshot!(
        [
            r#""retracted":true"#,
            r#""retracted":true,"reason":"""#,
            r#""retracted":false,"reason":"wrong""#,
            r#""retracted":1,"reason":"wrong""#,
            r#""label":"late","reason":"wrong""#,
            r#""reason":"wrong""#,
            &too_long,
        ]
        .map(refused)
        .join("\n")
    );
    assert!(arrow(&BooleanArray::from_slice([true, false])).is_err());
}

#[test]
fn columnar_rows_have_the_tag_limit() {
    let columns = |tags: usize| {
        let tags: Vec<String> = (0..tags).map(|tag| format!("\"tag.t{tag}\":[\"x\",null]")).collect();
        let times = r#"["2013-06-01T04:30:00Z","2013-06-01T04:30:00Z"]"#;
        format!(
            r#"{{"key":["a","b"],"predicted_at":{times},"release":["v1","v1"],"score":[1,1],{}}}"#,
            tags.join(",")
        )
    };
    assert_eq!(read(Format::Json, columns(64).as_bytes()).unwrap().rows(), 2);
    let refused = read(Format::Json, columns(65).as_bytes()).unwrap_err().to_string();
    assert_eq!(refused, "1 bad row; the first: row 1, `tags` 65 are more than the 64 of an event");
    assert!(matches!(read(Format::Json, columns(257).as_bytes()), Err(Refused::Whole(_))));
}

#[test]
fn equivalent_label_spellings_are_stored_alike() {
    let body = |label: &str| {
        format!(
            r#"{{"key":"a","predicted_on":"2013-06-01","observed_at":"2013-06-01T04:30:00Z","label":{label}}}"#
        )
    };
    let read = |body: String| {
        let mut reader = BodyReader::new(Kind::Outcomes, Format::Ndjson, Encoding::Identity, now());
        reader.push(body.as_bytes()).unwrap();
        reader.finish()
    };
    let spellings = [
        ("1", ["1", "\"1\"", "1.0", "\"1.0\"", "\" 1.00 \""]),
        ("true", ["true", "\"true\"", "\"True\"", "\"TRUE\"", "\"true\\t\""]),
        ("yes", ["\"yes\"", "\"yes \"", "\" yes\"", "\"yes\\n\"", "\"\\u00a0yes\""]),
    ];
    for (plain, spellings) in spellings {
        let batch = read(spellings.map(body).join("\n")).unwrap();
        let label = batch.columns.column("label").unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|row| label.text(row)), [Some(plain); 5]);
        // More labels than there are codes.
        let many: Vec<String> =
            (0..300).map(|n| body(&format!("\"l{n}\""))).chain(spellings.map(body)).collect();
        let batch = read(many.join("\n")).unwrap();
        let label = batch.columns.column("label").unwrap();
        assert_eq!([300, 301, 302, 303, 304].map(|row| label.text(row)), [Some(plain); 5]);
    }
    let number = "should be a string, or a whole number of at most 9007199254740992, but is another number";
    for (label, wrong) in
        [("\"  \"", "is empty"), ("0.5", number), ("1e20", number), ("[]", "a string, but is a list")]
    {
        assert!(read(body(label)).unwrap_err().to_string().contains(wrong), "{label}");
    }
}
