//! Columns of strings.

use std::borrow::Cow;

use event::{
    Values,
    columns::{Coded, Strings},
};

use super::{
    bytes::{Checked, Cursor, put_varint},
    chunks::{put_chunks, take_chunks},
    dictionary::{Dictionary, MAX_ENTRIES, code_bits, pack, unpack},
    frame::{put_frame, take_frame},
    nulls::{with_nulls, without_nulls},
    planes,
};

/// One string for all rows: the block is that string.
pub(super) const CONSTANT: u8 = 0;
/// Distinct strings, then a code of 1, 2, 4 or 8 bits for each row.
pub(super) const DICTIONARY: u8 = 1;
/// Strings of equal length in character planes.
pub(super) const FIXED: u8 = 2;
/// A frame of the lengths, then all strings one after the other.
pub(super) const PLAIN: u8 = 3;

/// Maximum length of strings in planes; longer ones compress better as running text.
const MAX_FIXED_BYTES: usize = 64;

/// The strings of a column that are not null, as a dictionary if few are distinct.
enum Source<'a> {
    Plain(Cow<'a, Strings>),
    Coded { entries: Vec<&'a str>, codes: Vec<u8> },
}

/// Appends the strings that are not null, at least one. Returns the encoding and the number of bytes of text that a
/// reader will hold.
pub(super) fn put_strings(out: &mut Vec<u8>, strings: &Strings, valid: Option<&[bool]>) -> (u8, usize) {
    let mut dictionary = Dictionary::new();
    let mut codes = Vec::with_capacity(strings.len());
    for row in (0..strings.len()).filter(|&row| valid.is_none_or(|valid| valid[row])) {
        match dictionary.code(strings.get(row)) {
            Some(code) => codes.push(code),
            None => return put(out, Source::Plain(present(strings, valid))),
        }
    }
    put(out, Source::Coded { entries: dictionary.entries().to_vec(), codes })
}

/// Appends coded strings as [`put_strings`] does. The result is the same for equal strings with any codes. `None` if
/// a code has no entry.
pub(super) fn put_coded(out: &mut Vec<u8>, coded: &Coded, valid: Option<&[bool]>) -> Option<(u8, usize)> {
    let mut dictionary = Dictionary::new();
    let mut known: [Option<u8>; MAX_ENTRIES] = [None; MAX_ENTRIES];
    let mut codes = without_nulls(&coded.codes, valid).into_owned();
    for code in &mut codes {
        let old = usize::from(*code);
        if known[old].is_none() {
            if old >= coded.dictionary.len() {
                return None;
            }
            known[old] = dictionary.code(coded.dictionary.get(old));
        }
        *code = known[old]?;
    }
    Some(put(out, Source::Coded { entries: dictionary.entries().to_vec(), codes }))
}

fn present<'a>(strings: &'a Strings, valid: Option<&[bool]>) -> Cow<'a, Strings> {
    match valid {
        None => Cow::Borrowed(strings),
        Some(valid) => {
            Cow::Owned((0..strings.len()).filter(|&row| valid[row]).map(|row| strings.get(row)).collect())
        }
    }
}

fn put(out: &mut Vec<u8>, source: Source) -> (u8, usize) {
    let strings = match source {
        Source::Coded { entries, .. } if entries.len() == 1 => {
            out.extend_from_slice(entries[0].as_bytes());
            return (CONSTANT, entries[0].len());
        }
        Source::Coded { entries, codes } => {
            if dictionary_pays(&entries, &codes) {
                return (DICTIONARY, put_dictionary(out, &entries, &codes));
            }
            Cow::Owned(codes.iter().map(|&code| entries[usize::from(code)]).collect())
        }
        Source::Plain(strings) => strings,
    };
    let (text, ends) = (strings.text().as_bytes(), strings.ends());
    let length = text.len() / ends.len();
    let equal = ends.iter().enumerate().all(|(row, &end)| end as usize == (row + 1) * length);
    if equal && (1..=MAX_FIXED_BYTES).contains(&length) {
        put_varint(out, length as u64);
        put_chunks(out, &planes::split_rows(text, length), ends.len());
        return (FIXED, text.len());
    }
    let starts = std::iter::once(&0).chain(ends);
    let lengths: Vec<i64> = ends.iter().zip(starts).map(|(end, start)| i64::from(end - start)).collect();
    put_frame(out, &lengths);
    put_chunks(out, text, text.len());
    (PLAIN, text.len())
}

/// Compares the sizes before compression.
fn dictionary_pays(entries: &[&str], codes: &[u8]) -> bool {
    let dictionary: usize = entries.iter().map(|entry| entry.len() + 1).sum();
    let plain: usize = codes.iter().map(|&code| entries[usize::from(code)].len()).sum();
    dictionary + (codes.len() * code_bits(entries.len())).div_ceil(8) <= plain
}

fn put_dictionary(out: &mut Vec<u8>, entries: &[&str], codes: &[u8]) -> usize {
    put_varint(out, entries.len() as u64);
    entries.iter().for_each(|entry| put_varint(out, entry.len() as u64));
    let text = entries.concat();
    put_chunks(out, text.as_bytes(), text.len());
    let packed = pack(codes, code_bits(entries.len()));
    put_chunks(out, &packed, packed.len());
    text.len()
}

/// Reads `count` strings and puts them into the rows of `valid`. `budget` is the number of bytes of text that may
/// still be created; it shrinks.
pub(super) fn take(
    cursor: &mut Cursor,
    encoding: u8,
    count: usize,
    valid: Option<&[bool]>,
    budget: &mut usize,
) -> Checked<Option<Values>> {
    match encoding {
        CONSTANT => take_constant(cursor, valid.map_or(count, <[bool]>::len), budget).map(Some),
        DICTIONARY => take_dictionary(cursor, count, valid, budget).map(Some),
        FIXED => take_fixed(cursor, count, valid, budget).map(Some),
        PLAIN => take_plain(cursor, count, valid, budget).map(Some),
        _ => Ok(None),
    }
}

fn spend(budget: &mut usize, bytes: u64) -> Checked<usize> {
    match usize::try_from(bytes).ok().and_then(|bytes| Some((bytes, budget.checked_sub(bytes)?))) {
        Some((bytes, left)) => {
            *budget = left;
            Ok(bytes)
        }
        None => Err(format!("{bytes} bytes of text are more than a segment may hold").into()),
    }
}

fn take_constant(cursor: &mut Cursor, rows: usize, budget: &mut usize) -> Checked<Values> {
    let bytes = cursor.take_rest();
    let length = spend(budget, bytes.len() as u64)?;
    let dictionary = strings(bytes.to_vec(), vec![length as u32])?;
    Ok(Values::Coded(Coded { codes: vec![0; rows], dictionary }))
}

fn take_dictionary(
    cursor: &mut Cursor,
    count: usize,
    valid: Option<&[bool]>,
    budget: &mut usize,
) -> Checked<Values> {
    let entries = cursor.varint_at_most(MAX_ENTRIES, "the number of dictionary entries")?;
    if entries < 2 {
        return Err("a dictionary has fewer than 2 entries".into());
    }
    let mut ends = Vec::with_capacity(entries);
    let mut length = 0;
    for _ in 0..entries {
        length += spend(budget, cursor.varint()?)?;
        ends.push(length as u32);
    }
    let dictionary = strings(take_chunks(cursor, length)?.into_owned(), ends)?;
    let bits = code_bits(entries);
    let packed = take_chunks(cursor, (count * bits).div_ceil(8))?;
    let codes = with_nulls(unpack(&packed, bits, count, entries)?, valid);
    Ok(Values::Coded(Coded { codes, dictionary }))
}

fn take_fixed(
    cursor: &mut Cursor,
    count: usize,
    valid: Option<&[bool]>,
    budget: &mut usize,
) -> Checked<Values> {
    let length = cursor.varint_at_most(MAX_FIXED_BYTES, "the fixed length")?;
    if length == 0 {
        return Err("the fixed length is 0".into());
    }
    let total = spend(budget, (count * length) as u64)?;
    let bytes = planes::join_rows(&take_chunks(cursor, total)?, count, length);
    let ends = (1..=count).map(|row| (row * length) as u32).collect();
    Ok(Values::Text(strings(bytes, ends_with_nulls(ends, valid))?))
}

fn take_plain(
    cursor: &mut Cursor,
    count: usize,
    valid: Option<&[bool]>,
    budget: &mut usize,
) -> Checked<Values> {
    let lengths = take_frame(cursor, count)?;
    let mut ends = Vec::with_capacity(count);
    let mut total = 0;
    for length in lengths {
        total += spend(budget, length as u64)?;
        ends.push(total as u32);
    }
    let bytes = take_chunks(cursor, total)?.into_owned();
    Ok(Values::Text(strings(bytes, ends_with_nulls(ends, valid))?))
}

/// Adds the ends of null rows, which are that of the row before.
fn ends_with_nulls(ends: Vec<u32>, valid: Option<&[bool]>) -> Vec<u32> {
    let Some(valid) = valid else { return ends };
    let mut ends = ends.into_iter();
    let mut end = 0;
    let next = |present: &bool| {
        if *present {
            end = ends.next().unwrap_or(end);
        }
        end
    };
    valid.iter().map(next).collect()
}

fn strings(bytes: Vec<u8>, ends: Vec<u32>) -> Checked<Strings> {
    String::from_utf8(bytes)
        .ok()
        .and_then(|text| Strings::from_parts(text, ends))
        .ok_or_else(|| "a string is not UTF-8".into())
}
