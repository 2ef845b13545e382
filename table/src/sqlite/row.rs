//! Conversion of an item to a row of the file, and back.

use event::{Error, Result, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Attempt;
use crate::{
    Item, Key, check,
    item::Value,
    text::{self as codec, Attributes},
};

/// Attribute whose bytes stand in a column of their own, outside of the JSON.
pub(super) const DATA: &str = "data";

/// Item in the columns of its row. It is made by the caller of the write, so that the one writer thread has nothing to do but to
/// write.
#[derive(Debug)]
pub(super) struct Row {
    key: Key,
    attributes: String,
    gsi1: Option<(String, String)>,
    board: Option<(String, f64)>,
    expires_at: Option<i64>,
    data: Option<Vec<u8>>,
}

impl Row {
    /// Converts an item to its row.
    ///
    /// # Errors
    /// `Invalid`, when the item cannot be stored.
    pub(super) fn new(mut item: Item) -> Result<Self> {
        check::check_item(&item)?;
        // An item stands in an index only with both parts of the key of that index.
        let gsi1 = text(&item, "GSI1PK").zip(text(&item, "GSI1SK"));
        let board = text(&item, "board").zip(score(&item));
        let expires_at = item.attributes.get("expires_at").and_then(check::whole);
        let data = match item.attributes.remove(DATA) {
            Some(Value::B(bytes)) => Some(bytes),
            Some(other) => {
                item.attributes.insert(DATA.to_owned(), other);
                None
            }
            None => None,
        };
        let attributes = codec::encode(&item.attributes)
            .map_err(|error| Error::invalid(format!("item {}", item.key)).because(error))?;
        Ok(Self { key: item.key, attributes, gsi1, board, expires_at, data })
    }

    /// Key of the item.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Writes the row, over one with the same key.
    pub(super) fn write(&self, connection: &Connection) -> Attempt<()> {
        let sql = "INSERT INTO item (pk, sk, attributes, gsi1pk, gsi1sk, board, score, expires_at, data)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            ON CONFLICT (pk, sk) DO UPDATE SET attributes = ?3, gsi1pk = ?4, gsi1sk = ?5, board = ?6, score = ?7,
                expires_at = ?8, data = ?9";
        connection.prepare_cached(sql)?.execute(params![
            self.key.pk,
            self.key.sk,
            self.attributes,
            self.gsi1.as_ref().map(|(pk, _)| pk),
            self.gsi1.as_ref().map(|(_, sk)| sk),
            self.board.as_ref().map(|(board, _)| board),
            self.board.as_ref().map(|(_, score)| score),
            self.expires_at,
            self.data,
        ])?;
        Ok(())
    }
}

/// Reads the live item at `key` with the attributes of `wanted`, or with all.
pub(super) fn load(
    connection: &Connection,
    key: &Key,
    now: Timestamp,
    wanted: Option<&[String]>,
) -> Attempt<Option<Item>> {
    // Two texts of SQL, since a named column is read, and `data` can be long.
    let sql = if wants_data(wanted) {
        "SELECT attributes, data FROM item WHERE pk = ?1 AND sk = ?2 AND (expires_at IS NULL OR expires_at > ?3)"
    } else {
        "SELECT attributes, NULL FROM item WHERE pk = ?1 AND sk = ?2 AND (expires_at IS NULL OR expires_at > ?3)"
    };
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![key.pk, key.sk, seconds(now)], |row| {
        let attributes = decode(key, row.get_ref(0)?.as_str()?, wanted);
        Ok((attributes, row.get::<_, Option<Vec<u8>>>(1)?))
    });
    let Some((attributes, data)) = found.optional()? else { return Ok(None) };
    let mut item = Item { key: key.clone(), attributes: attributes? };
    if let Some(data) = data {
        item.attributes.insert(DATA.to_owned(), Value::B(data));
    }
    Ok(Some(item))
}

/// Returns whether there is a live item at `key`.
pub(super) fn exists(connection: &Connection, key: &Key, now: Timestamp) -> Attempt<bool> {
    let sql = "SELECT 1 FROM item WHERE pk = ?1 AND sk = ?2 AND (expires_at IS NULL OR expires_at > ?3)";
    Ok(connection.prepare_cached(sql)?.exists(params![key.pk, key.sk, seconds(now)])?)
}

/// Removes the row at `key`. Returns whether there was one.
pub(super) fn remove(connection: &Connection, key: &Key) -> Attempt<bool> {
    let sql = "DELETE FROM item WHERE pk = ?1 AND sk = ?2";
    Ok(connection.prepare_cached(sql)?.execute([&key.pk, &key.sk])? > 0)
}

/// Decodes the attributes of a row's JSON.
///
/// # Errors
/// `Corrupt`, naming the item, when this engine did not write it.
pub(super) fn decode(key: &Key, json: &str, wanted: Option<&[String]>) -> Result<Attributes> {
    codec::decode(json, wanted)
        .map_err(|error| Error::corrupt(format!("item {key}: its attributes cannot be read")).because(error))
}

/// Returns whether the bytes of `data` must be read.
pub(super) fn wants_data(wanted: Option<&[String]>) -> bool {
    wanted.is_none_or(|wanted| wanted.iter().any(|name| name == DATA))
}

/// Second that contains `now`, with which `expires_at` is compared.
pub(super) fn seconds(now: Timestamp) -> i64 {
    now.micros().div_euclid(1_000_000)
}

fn text(item: &Item, name: &str) -> Option<String> {
    item.optional_text(name).map(str::to_owned)
}

fn score(item: &Item) -> Option<f64> {
    match item.attributes.get("score") {
        Some(Value::N(number)) => Some(number.as_f64()),
        _ => None,
    }
}
