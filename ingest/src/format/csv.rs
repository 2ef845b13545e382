//! CSV with a header, read from a stream of bytes.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::{memchr, memchr2};

use super::collect::{Collector, Places, places};
use crate::{
    batch::Refused,
    builder::{
        names::{ColumnTarget, Names},
        row::{FieldError, Member, Row, Scalar},
    },
    limits::{MAX_FIELDS, MAX_LINE_BYTES},
};

/// Reader of records. It holds at most one incomplete record.
pub(crate) struct Csv {
    names: Names,
    reader: Reader,
    delimiter: u8,
    /// Cells of the present record, one after the other, and their ends.
    cells: Vec<u8>,
    cells_len: usize,
    ends: Vec<usize>,
    ends_len: usize,
    /// Raw text of the present record, while it is incomplete.
    held: Vec<u8>,
    columns: Option<Places>,
    /// Empty row, kept for its memory.
    spare: Option<Row<'static>>,
    /// Number of the next row; the header has none.
    number: u64,
}

impl Csv {
    pub(crate) fn new(names: Names, delimiter: u8) -> Self {
        Self {
            names,
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            delimiter,
            cells: vec![0; 4096],
            cells_len: 0,
            ends: vec![0; MAX_FIELDS + 2],
            ends_len: 0,
            held: Vec::new(),
            columns: None,
            spare: None,
            number: 1,
        }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut Collector) -> Result<(), Refused> {
        while !bytes.is_empty() {
            bytes = self.step(bytes, out)?.0;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, out: &mut Collector) -> Result<(), Refused> {
        // An empty input marks the end for the reader; it may end one last record.
        while !self.step(&[], out)?.1 {}
        Ok(())
    }

    /// Reads the next record; returns the rest of the bytes, and whether all is read.
    fn step<'b>(&mut self, bytes: &'b [u8], out: &mut Collector) -> Result<(&'b [u8], bool), Refused> {
        let (result, read, written, ended) = self.reader.read_record(
            bytes,
            &mut self.cells[self.cells_len..],
            &mut self.ends[self.ends_len..],
        );
        self.cells_len += written;
        self.ends_len += ended;
        let (raw, rest) = bytes.split_at(read);
        self.held.extend_from_slice(raw);
        if self.held.len() > MAX_LINE_BYTES {
            let message = format!("row {} is longer than {} MiB", self.number, MAX_LINE_BYTES >> 20);
            return Err(Refused::TooLarge(message));
        }
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputFull => self.cells.resize(2 * self.cells.len(), 0),
            ReadRecordResult::OutputEndsFull => {
                let message = format!("row {} has more than {MAX_FIELDS} cells", self.number);
                return Err(Refused::Whole(message));
            }
            ReadRecordResult::Record if bytes.is_empty() && self.quotes().is_open => {
                self.unclosed(out)?;
                (self.cells_len, self.ends_len) = (0, 0);
                self.held.clear();
            }
            ReadRecordResult::Record => {
                self.record(out)?;
                self.held.clear();
                (self.cells_len, self.ends_len) = (0, 0);
            }
            ReadRecordResult::End => return Ok((rest, true)),
        }
        Ok((rest, false))
    }

    fn quotes(&self) -> Quotes {
        Quotes::of(trimmed(&self.held), self.delimiter)
    }

    /// Refuses a last record in quotes that are never closed: the rest of the text stands in one cell, or was cut off.
    fn unclosed(&mut self, out: &mut Collector) -> Result<(), Refused> {
        if self.columns.is_none() {
            return Err(Refused::Whole("the header opens a quote that is never closed".into()));
        }
        self.number += 1;
        let message = "opens a quote that is never closed, so that what follows it is no row of its own";
        out.unreadable(self.number - 1, FieldError::of_row(message), trimmed(&self.held))
    }

    fn record(&mut self, out: &mut Collector) -> Result<(), Refused> {
        let Ok(text) = std::str::from_utf8(&self.cells[..self.cells_len]) else {
            if self.columns.is_none() {
                return Err(Refused::Whole("the header is not UTF-8".into()));
            }
            self.number += 1;
            let error = FieldError::of_row("is not UTF-8");
            return out.unreadable(self.number - 1, error, trimmed(&self.held));
        };
        if self.delimiter == b'\t'
            && self.columns.is_some()
            && memchr2(b'\n', b'\r', text.as_bytes()).is_some()
        {
            self.number += 1;
            let message =
                "has a line end within quotes: a quote at the beginning of a cell reaches over several lines";
            return out.unreadable(self.number - 1, FieldError::of_row(message), trimmed(&self.held));
        }
        let mut start = 0;
        let cells = self.ends[..self.ends_len].iter().map(|end| {
            let cell = text.get(start..*end).unwrap_or_default();
            start = *end;
            cell
        });
        let has_text_after = memchr(b'"', &self.held).is_some() && self.quotes().has_text_after;
        let Some(columns) = &self.columns else {
            if has_text_after {
                return Err(Refused::Whole(format!("the header {TEXT_AFTER}")));
            }
            let cells: Vec<&str> = cells.collect();
            let columns = places(&self.names, cells.into_iter())?;
            out.header(&columns, self.delimiter);
            self.columns = Some(columns);
            return Ok(());
        };
        let mut row = self.spare.take().map_or_else(|| Row::new(self.names.kind), Row::recycle);
        if self.ends_len != columns.len() {
            let message = format!("has {} cells, but the header has {}", self.ends_len, columns.len());
            row.errors.push(FieldError::of_row(message));
        }
        if has_text_after {
            row.errors.push(FieldError::of_row(TEXT_AFTER));
        }
        for ((_, targets), cell) in columns.iter().zip(cells) {
            if cell.is_empty() {
                continue;
            }
            for target in targets {
                let value = Scalar::Text(Cow::Borrowed(cell));
                match target {
                    ColumnTarget::Field(field) => row.fields[*field] = value,
                    ColumnTarget::PredictedOn => row.predicted_on = value,
                    ColumnTarget::EventId => row.event_id = value,
                    ColumnTarget::Member(family, name) => {
                        row.members.push(Member { family: *family, name: Cow::Borrowed(name), value });
                    }
                }
            }
        }
        let number = self.number;
        self.number += 1;
        out.row(number, &mut row, trimmed(&self.held))?;
        self.spare = Some(row.recycle());
        Ok(())
    }
}

/// Fault of a record such as `"a"b,c`: its first cell is ambiguous.
const TEXT_AFTER: &str = "has text after a closing quote; within a cell in quotes, write a quote twice";

/// Quotes of a record.
#[derive(Default)]
struct Quotes {
    /// True if its last cell begins with a quote that is not closed.
    is_open: bool,
    /// True if text follows a closing quote.
    has_text_after: bool,
}

impl Quotes {
    fn of(record: &[u8], delimiter: u8) -> Self {
        let mut quotes = Self::default();
        let (mut is_begin, mut is_closed) = (true, false);
        for byte in record {
            match byte {
                b'"' if quotes.is_open => (quotes.is_open, is_closed) = (false, true),
                // Two quotes in quotes, which stand for one, close them and open them again.
                b'"' if is_begin || is_closed => (quotes.is_open, is_closed) = (true, false),
                byte if *byte == delimiter && !quotes.is_open => (is_begin, is_closed) = (true, false),
                _ => {
                    quotes.has_text_after |= is_closed;
                    (is_begin, is_closed) = (false, false);
                }
            }
            is_begin &= *byte == delimiter;
        }
        quotes
    }
}

/// Trims the end of the line of a record, and of the line before (which the reader leaves to the next).
fn trimmed(raw: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let from = raw.iter().position(|byte| !is_end(byte)).unwrap_or(raw.len());
    let to = raw.iter().rposition(|byte| !is_end(byte)).map_or(from, |last| last + 1);
    &raw[from..to]
}
