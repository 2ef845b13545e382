//! Options of imports, one a line, against the header of a CSV file, which stands behind an empty line with its rows.

use std::{io::Write as _, sync::LazyLock};

use event::{Kind, Timestamp, plain::listed};
use ingest::file::{Chunk, FileReader, FileSpec, Mapping};
use tempfile::TempDir;

use super::texts;
use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "imports",
    about: "options of imports against the header of a file: maps, tags, features, values, nulls, zones and forms of times",
    seeds,
    words: &[
        "map ",
        "set ",
        "tag ",
        "feature ",
        "select ",
        "null NA",
        "ignore-extra",
        "time-zone Europe/Berlin",
        "time-format unix_ms",
        "time-format %Y-%m-%d",
        "known-at ",
        "key=",
        "predicted_at=",
        "predicted_on=",
        "score.late=",
        "tag.",
        "feature.",
        "event_id",
        "\"a, b\"",
        "2026-06-01T04:30:00Z",
        ",",
        "=",
        "\n",
        "\n\n",
        "\u{feff}",
    ],
    take,
};

fn seeds() -> Vec<Vec<u8>> {
    texts(&[
        "predictions\nmap key=loan,score=prob\nset release=v1\ntag branch,loan\nfeature age\nnull NA\n\nloan,prob,predicted_at,branch,age\na,0.5,2026-06-01T04:30:00Z,north,7\nb,0.25,2026-06-01T05:30:00Z,NA,\n",
        "predictions\nmap predicted_at=at,\"tag.place=city, state\"\nselect key,at,release,\"city, state\"\ntime-zone America/New_York\ntime-format %Y-%m-%d %H:%M\n\nkey,at,release,\"city, state\",other\na,2026-06-01 04:30,v1,\"Troy, NY\",1\n",
        "outcomes\nignore-extra\ntime-format unix\nknown-at loaded\n\nkey,predicted_on,observed_at,label,loaded,other\na,2026-06-01,1780288200,late,1780374600,x\nb,2026-06-01,1780288200,kept,1780374600,x\n",
        "metrics\nmap tag.model=name,name=name\nknown-at measured_at\n\nname,measured_at,value\nloss,2026-06-01T04:30:00Z,0.25\n",
        "releases\nset action=promote\nset environment=prod\nset released_at=2026-06-01T04:30:00Z\n\nrelease,model\nv1,risk\n",
    ])
}

/// What the options say of the file.
fn spec(options: &str) -> Option<FileSpec> {
    let mut options = options.lines();
    let kind = Kind::from_name(options.next()?)?;
    let mut mapping = Mapping::default();
    for line in options {
        let (option, value) = line.split_once(' ').unwrap_or((line, ""));
        let pair = |pair: &str| {
            let (field, value) = pair.split_once('=')?;
            Some((field.to_owned(), value.to_owned()))
        };
        match option {
            "map" => {
                let pairs = listed(value).ok()?;
                mapping.renames.extend(pairs.iter().map(|one| pair(one)).collect::<Option<Vec<_>>>()?);
            }
            "set" => mapping.set.push(pair(value)?),
            "tag" => mapping.tags.extend(listed(value).ok()?),
            "feature" => mapping.features.extend(listed(value).ok()?),
            "select" => mapping.select.extend(listed(value).ok()?),
            "null" => mapping.null.push(value.to_owned()),
            "known-at" => mapping.known_at = Some(value.to_owned()),
            "ignore-extra" => mapping.ignore_extra = true,
            "time-zone" => mapping.time_zone = Some(value.parse().ok()?),
            "time-format" => mapping.time_format = Some(value.to_owned()),
            _ => return None,
        }
    }
    Some(FileSpec { kind, mapping })
}

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fn read(spec: &FileSpec, csv: &str) -> Option<Vec<Chunk>> {
    let mut file = tempfile::Builder::new().suffix(".csv").tempfile_in(FOLDER.path()).unwrap();
    file.write_all(csv.as_bytes()).unwrap();
    let now = Timestamp::parse("2026-06-02T00:00:00Z").unwrap();
    let mut reader = FileReader::open(file.path(), spec, now).ok()?;
    let chunks = reader.by_ref().collect::<Result<Vec<_>, _>>().ok()?;
    reader.lacking().is_none_or(|lacking| lacking.is_empty()).then_some(chunks)
}

fn take(input: &[u8]) -> bool {
    let Some((options, csv)) = str::from_utf8(input).ok().and_then(|text| text.split_once("\n\n")) else {
        return false;
    };
    let Some(spec) = spec(options) else { return false };
    let (Some(chunks), Some(again)) = (read(&spec, csv), read(&spec, csv)) else { return false };
    let digests =
        |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.origin.digest.clone()).collect::<Vec<_>>();
    assert_eq!(digests(&chunks), digests(&again), "a file has the same chunks each time");
    let mut is_good = !chunks.is_empty();
    for Chunk { batch, known_at, bad, .. } in chunks {
        is_good &= bad.is_empty();
        let Some(batch) = batch else { continue };
        assert!(batch.columns.columns.iter().all(|column| spec.kind.may_have(&column.name)
            || spec.kind.sent_fields().iter().any(|field| field.name == column.name)));
        let known = if spec.mapping.known_at.is_some() { batch.rows() } else { 0 };
        assert_eq!(known_at.len(), known, "when each row was known");
        for batch in batch.by_days() {
            let bytes = segment::encode(&batch.columns).unwrap();
            assert_eq!(segment::decode(&bytes).unwrap().rows, batch.rows());
        }
    }
    is_good
}
