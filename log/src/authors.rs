//! Authors of the parts of a segment, in few bytes: many events that came one by one share a segment, and most of them
//! an author, whose requests have ids that begin alike.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use segment::bytes::{Checked, Cursor, put_varint};

use crate::audit::Author;

/// Maximum bytes of a text in it.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// Maximum parts of a segment.
const MAX_PARTS: usize = 1 << 20;

/// The authors of the parts of a segment, in their order, as bytes. Empty where it was written without.
///
/// The distinct authors come first, each without the ids of requests: the principal, the address, the source. Then comes for
/// each part the number of its author, and how the id of its request differs from that of the part before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authors(Vec<u8>);

impl Authors {
    /// Encodes the authors of these parts.
    pub fn of(parts: &[Arc<Author>]) -> Self {
        let mut out = Vec::new();
        if parts.is_empty() {
            return Self(out);
        }
        let plain = |author: &Author| Author { request: None, ..author.clone() };
        let mut numbers = BTreeMap::<Author, u64>::new();
        let mut distinct = Vec::new();
        let mut number_of = Vec::with_capacity(parts.len());
        let mut last: Option<&Arc<Author>> = None;
        for part in parts {
            // Mostly it is that of the part before.
            let is_same = last.is_some_and(|last| {
                (&last.principal, last.address, &last.source) == (&part.principal, part.address, &part.source)
            });
            let number = match number_of.last() {
                Some(number) if is_same => *number,
                _ => *numbers.entry(plain(part)).or_insert_with(|| {
                    distinct.push(part);
                    distinct.len() as u64 - 1
                }),
            };
            number_of.push(number);
            last = Some(part);
        }
        put_varint(&mut out, distinct.len() as u64);
        for author in distinct {
            put_text(&mut out, &author.principal);
            let address = match author.address {
                None => Vec::new(),
                Some(IpAddr::V4(address)) => address.octets().to_vec(),
                Some(IpAddr::V6(address)) => address.octets().to_vec(),
            };
            put_bytes(&mut out, &address);
            put_some(&mut out, author.source.as_deref());
        }
        put_varint(&mut out, parts.len() as u64);
        let mut before = "";
        for (part, number) in parts.iter().zip(number_of) {
            put_varint(&mut out, number);
            let Some(request) = part.request.as_deref() else {
                put_varint(&mut out, 0);
                continue;
            };
            let shared = request.bytes().zip(before.bytes()).take_while(|(one, other)| one == other).count();
            let shared = request.floor_char_boundary(shared);
            put_varint(&mut out, shared as u64 + 1);
            put_text(&mut out, &request[shared..]);
            before = request;
        }
        Self(out)
    }

    /// Stored form.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Wraps the stored form.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Number of bytes of the stored form.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the segment was written without authors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The author of each part; none, where the segment was written without.
    ///
    /// # Errors
    /// A flaw in the bytes.
    pub fn read(&self) -> Checked<Vec<Author>> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let mut cursor = Cursor::new(&self.0);
        let count = cursor.varint_at_most(MAX_PARTS, "the number of authors")?;
        let mut distinct = Vec::new();
        for _ in 0..count {
            let principal = take_text(&mut cursor)?;
            let bytes = take_bytes(&mut cursor)?;
            let address = match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
                _ if bytes.is_empty() => None,
                (Ok(four), _) => Some(IpAddr::from(four)),
                (_, Ok(sixteen)) => Some(IpAddr::from(sixteen)),
                _ => return Err("an address has another length".into()),
            };
            let source = take_some(&mut cursor)?;
            distinct.push(Author { principal, request: None, address, source });
        }
        let parts = cursor.varint_at_most(MAX_PARTS, "the number of parts")?;
        let mut authors = Vec::new();
        let mut before = String::new();
        for _ in 0..parts {
            let number = cursor.varint()?;
            let author = usize::try_from(number).ok().and_then(|number| distinct.get(number));
            let author: &Author = author.ok_or("there is no author of this number")?;
            let request = match cursor.varint_at_most(MAX_TEXT_BYTES + 1, "what is shared of an id")? {
                0 => None,
                shared => {
                    let shared = before.get(..shared - 1).ok_or("more is shared than there is")?;
                    before = format!("{shared}{}", take_text(&mut cursor)?);
                    Some(before.clone())
                }
            };
            authors.push(Author { request, ..author.clone() });
        }
        match cursor.remaining() {
            0 => Ok(authors),
            _ => Err("bytes are left over".into()),
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A text, read version where it is longer than any that comes in.
fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, &text.as_bytes()[..text.floor_char_boundary(MAX_TEXT_BYTES)]);
}

fn put_some(out: &mut Vec<u8>, text: Option<&str>) {
    put_varint(out, u64::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

fn take_bytes<'a>(cursor: &mut Cursor<'a>) -> Checked<&'a [u8]> {
    let length = cursor.varint_at_most(MAX_TEXT_BYTES, "the length of a text")?;
    cursor.take(length)
}

fn take_text(cursor: &mut Cursor<'_>) -> Checked<String> {
    let bytes = take_bytes(cursor)?.to_vec();
    String::from_utf8(bytes).map_err(|_| "a text is not UTF-8".into())
}

fn take_some(cursor: &mut Cursor<'_>) -> Checked<Option<String>> {
    match cursor.varint_at_most(1, "whether there is a text")? {
        0 => Ok(None),
        _ => take_text(cursor).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn author(principal: &str, request: Option<&str>) -> Arc<Author> {
        let address = Some("192.0.2.7".parse().unwrap());
        let request = request.map(str::to_owned);
        Arc::new(Author { principal: principal.into(), request, address, source: None })
    }

    fn read(authors: &Authors) -> Vec<Arc<Author>> {
        authors.read().unwrap().into_iter().map(Arc::new).collect()
    }

    #[test]
    fn golden_bytes() {
        let mut third = Author::named("local:root");
        third.address = Some("::1".parse().unwrap());
        third.source = Some("job=nightly; system=airflow".into());
        let parts = [
            author("user:ann", Some("K3bXo1-16")),
            author("user:ann", Some("K3bXo1-17")),
            Arc::new(third),
            author("user:ann", None),
        ];
        let authors = Authors::of(&parts);
        let hex: String = authors.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        insta::assert_snapshot!(hex);
        assert_eq!(read(&authors), parts);
        assert_eq!(Authors::of(&[]), Authors::default());
        assert_eq!(read(&Authors::default()), []);
    }

    #[test]
    fn encoded_batch_authors_take_few_bytes() {
        let one = |n: u64| author("system:nightly", Some(&format!("K3bXo1p9Zq-{n}")));
        assert_eq!(Authors::of(&[one(123_456)]).len(), 43);
        let many: Vec<_> = (100_000..101_000).map(one).collect();
        let a_part = Authors::of(&many).len() as f64 / many.len() as f64;
        assert!(a_part < 4.5, "{a_part} bytes");
    }

    #[test]
    fn what_is_damaged_is_an_error() {
        let authors = Authors::of(&[author("user:ann", Some("K3bXo1-16")), author("user:bob", None)]);
        for length in 1..authors.len() {
            assert!(Authors::from_bytes(authors.bytes()[..length].to_vec()).read().is_err(), "{length}");
        }
        let longer = [authors.bytes(), &[0]].concat();
        assert!(Authors::from_bytes(longer).read().is_err());
    }

    proptest! {
        #[test]
        fn whatever_authors_there_are_are_read_back(
            parts in prop::collection::vec(("[a-c]{0,2}", prop::option::of("[a-cé]{0,4}"), 0u8..3, prop::option::of("[x=;]{0,3}")), 0..20)
        ) {
            let parts: Vec<_> = parts.into_iter().map(|(principal, request, address, source)| {
                let address = [None, Some("192.0.2.7".parse().unwrap()), Some("2001:db8::1".parse().unwrap())][usize::from(address)];
                Arc::new(Author { principal, request, address, source })
            }).collect();
            prop_assert_eq!(read(&Authors::of(&parts)), parts);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            _ = Authors::from_bytes(bytes).read();
        }
    }
}
