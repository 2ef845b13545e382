//! Bytes of segments, as they are and with their checksums put right.

use event::ErrorKind;
use segment::{decode, decode_only, encode, header, with_checksums};

use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "segments",
    about: "bytes of segments",
    seeds,
    words: &["ALMS\u{1}", "ALMS\u{2}", "(\u{b5}/\u{fd}", "score", "key"],
    take,
};

macro_rules! golden {
    ($($name:literal),*) => {
        [$(include_bytes!(concat!("../../../segment/tests/golden/segment-", $name, ".seg")).as_slice()),*]
    };
}

fn seeds() -> Vec<Vec<u8>> {
    golden!("empty", "encodings", "mixed", "one-row", "singles", "wide").map(<[u8]>::to_vec).to_vec()
}

fn take(input: &[u8]) -> bool {
    let is_good = read(input);
    let mut repaired = input.to_vec();
    with_checksums(&mut repaired);
    read(&repaired) || is_good
}

fn read(bytes: &[u8]) -> bool {
    _ = header(bytes);
    _ = decode_only(bytes, |name| name.len() % 2 == 0);
    match decode(bytes) {
        Ok(columns) => {
            assert!(columns.columns.iter().all(|column| column.values.len() == columns.rows));
            let again = encode(&columns).unwrap();
            let decoded = decode(&again).unwrap();
            assert_eq!(encode(&decoded).unwrap(), again, "what is stored again is the same");
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            false
        }
    }
}
