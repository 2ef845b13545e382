//! Arrow files and streams as other libraries write them.

use super::*;

/// Written by polars 2.1.0 as two compressed batches, with a schema at its beginning that has no length.
#[test]
fn newer_polars_files_are_read_by_footer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("polars.arrow");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        read_file(&path, &spec(Mapping::default()), now())
    };
    let file = &include_bytes!("../data/polars.arrow")[..];
    let batches = read(file).unwrap();
    let texts = |name: &str| -> Vec<String> {
        let of = |batch: &Batch| {
            let column = batch.columns.column(name).unwrap();
            (0..batch.rows()).map(|row| column.text(row).unwrap_or("-").to_owned()).collect::<Vec<_>>()
        };
        batches.iter().flat_map(of).collect()
    };
    assert_eq!(texts("key"), ["k0", "k1", "k2", "k3", "k4", "k5"]);
    assert_eq!(texts("label"), ["yes", "-", "no", "yes", "-", "no"]);
    assert_eq!(texts("tag.branch"), ["north", "south"].repeat(3));
    let refused = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(refused(&file[..file.len() - 1]).contains("its end is missing"));
    // A footer of another file names places that this one does not have.
    let footer =
        file.len() - 10 - u32::from_le_bytes(*file[file.len() - 10..].first_chunk().unwrap()) as usize;
    let short = [&file[..64], &file[footer..]].concat();
    assert!(refused(&short).contains("this is not an Arrow file that can be read: "));
    assert!(refused(b"\xff\xff\xff\xff garbage").contains("this is not an Arrow file that can be read: "));
    for at in 0..file.len() {
        let mut broken = file.to_vec();
        broken[at] ^= 0x55;
        // The decoder may read it or not; but it must report the failure.
        let _ = (read(&broken).is_ok(), read(&file[..at]).is_ok());
    }
}

/// Written by pyarrow from pandas frames, in which keys of nulls are -1: as a compressed file and as a stream; and a stream whose
/// dictionary grows by deltas and is replaced.
#[test]
fn arrow_dictionaries_are_read_as_their_values() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        read_file(&path, &spec(Mapping::default()), now())
    };
    let body = |bytes: &[u8]| {
        let mut reader =
            crate::format::BodyReader::new(Kind::Predictions, Format::Arrow, Encoding::Identity, now());
        reader.push(bytes).unwrap();
        reader.finish()
    };
    let texts = |batch: &Batch, name: &str| -> Vec<Option<String>> {
        let column = batch.columns.column(name).unwrap();
        (0..batch.rows()).map(|row| column.text(row).map(str::to_owned)).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    let stream = include_bytes!("../data/pandas.arrows");
    let [of_file, of_stream] =
        [read("a.arrow", include_bytes!("../data/pandas.arrow")).unwrap(), read("a.arrows", stream).unwrap()];
    let of_body = body(stream).unwrap();
    for batch in [&of_file[0], &of_stream[0], &of_body] {
        assert_eq!(texts(batch, "release"), vec![some("v1"); 4]);
        assert_eq!(texts(batch, "label"), [some("yes"), None, some("no"), None]);
        assert_eq!(texts(batch, "tag.branch"), [some("7"), None, some("8"), some("7")]);
        assert_eq!(batch.digest(), of_body.digest());
    }
    let refused = body(include_bytes!("../data/pandas.arrow")).unwrap_err().to_string();
    assert!(refused.starts_with("this is an Arrow file (Feather), not a stream"), "{refused}");
    let deltas = include_bytes!("../data/deltas.arrows");
    let expected =
        [some("yes"), None, some("no"), some("yes"), None, some("maybe"), some("other"), None, some("other")];
    assert_eq!(texts(&body(deltas).unwrap(), "label"), expected);
    let batches = read("d.arrows", deltas).unwrap();
    assert_eq!(batches.iter().flat_map(|batch| texts(batch, "label")).collect::<Vec<_>>(), expected);
    for bytes in [&stream[..], deltas, include_bytes!("../data/pandas.arrow")] {
        for at in (0..bytes.len()).step_by(7) {
            let mut broken = bytes.to_vec();
            broken[at] ^= 0x55;
            // The decoder may read it or not; but it must report the failure.
            let _ = (read("b.arrow", &broken).is_ok(), body(&broken).is_ok(), body(&bytes[..at]).is_ok());
        }
    }
}

#[test]
fn file_batches_are_refused_by_file_limits() {
    use crate::format::{ipc::of_file, too_large};
    let refused = of_file(too_large()).to_string();
    let limits = "more than 67108864 rows, or more than 1024 MiB when it is decoded";
    assert!(refused.contains(limits) && !refused.contains("body"), "{refused}");
}
