//! Author of a change or an append.

use std::{future::Future, net::IpAddr, sync::Arc};

use event::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// Words by which a source is named, in the order in which they are stored.
pub const SOURCE_WORDS: [&str; 4] = ["system", "job", "run", "dataset"];

/// Values of a source, in the order of [`SOURCE_WORDS`].
pub type SourceValues<'a> = [Option<&'a str>; SOURCE_WORDS.len()];

/// Maximum bytes of each value.
pub const MAX_SOURCE_VALUE_BYTES: usize = 256;

/// Word that stands behind those of a source in an append whose events were known earlier than they were appended.
const KNOWN_AT: &str = "known_at";

/// Author of a change or an append, with the request it came by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Author {
    /// Name of the author: `user:ann` or `system:nightly`, as the service knows its caller; `anonymous`, if callers are not
    /// authenticated; `local:ann`, the user of the machine on which a command works on the table; `almanac`, the program itself.
    pub principal: String,
    /// Id of the request.
    pub request: Option<String>,
    /// Address of the sender of the request.
    pub address: Option<IpAddr>,
    /// Source of the events: see [`Author::from_source`].
    pub source: Option<String>,
}

tokio::task_local! {
    static AUTHOR: Arc<Author>;
}

impl Author {
    /// Creates an author with this name alone.
    pub fn named(principal: impl Into<String>) -> Self {
        Self { principal: principal.into(), request: None, address: None, source: None }
    }

    /// Creates the author for the program itself, for changes without a request.
    pub fn program() -> Self {
        Self::named("almanac")
    }

    /// Adds the source of appended events: pairs such as `system=airflow; job=nightly; run=17; dataset=loans`. They are stored in
    /// a fixed order; the last value of a repeated word counts.
    ///
    /// # Errors
    /// `Invalid`, when a word is not one of [`SOURCE_WORDS`], or has no value or too long a one.
    pub fn from_source(self, pairs: &str) -> Result<Self> {
        let mut values = [None; SOURCE_WORDS.len()];
        for pair in pairs.split(';') {
            let (word, value) = pair.trim().split_once('=').ok_or_else(|| bad_source(pair))?;
            let at = SOURCE_WORDS.iter().position(|known| *known == word).ok_or_else(|| bad_source(pair))?;
            let is_good = (1..=MAX_SOURCE_VALUE_BYTES).contains(&value.len())
                && value.chars().all(|letter| !letter.is_control());
            if !is_good {
                return Err(bad_source(pair));
            }
            values[at] = Some(value);
        }
        let pairs = SOURCE_WORDS.iter().zip(values);
        let named = pairs.filter_map(|(word, value)| Some(format!("{word}={}", value?)));
        Ok(Self { source: Some(named.collect::<Vec<_>>().join("; ")), ..self })
    }

    /// Adds the stated time at which the appended events were known. It is stored as the last word of the source, which no source
    /// has by itself.
    pub fn stating(self, known_at: Timestamp) -> Self {
        let before = self.source.map(|source| source + "; ").unwrap_or_default();
        Self { source: Some(format!("{before}{KNOWN_AT}={known_at}")), ..self }
    }

    /// Time at which the appended events were known, if it is stated.
    pub fn known_at(&self) -> Option<Timestamp> {
        let (word, known_at) = self.source.as_deref()?.rsplit("; ").next()?.split_once('=')?;
        if word == KNOWN_AT { Timestamp::parse(known_at).ok() } else { None }
    }

    /// Source, without the time at which its events were known.
    pub fn into_source(self) -> Option<String> {
        match self.known_at() {
            None => self.source,
            Some(_) => self.source?.rsplit_once("; ").map(|(source, _)| source.to_owned()),
        }
    }

    /// Values of its source, in the order of [`SOURCE_WORDS`].
    pub fn source_values(&self) -> SourceValues<'_> {
        let pairs = self.source.iter().flat_map(|source| source.split("; "));
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        pairs.fold(SourceValues::default(), |mut values, (word, value)| {
            if let Some(at) = SOURCE_WORDS.iter().position(|known| *known == word) {
                values[at] = Some(value);
            }
            values
        })
    }

    /// Creates the author for a caller of a service without authentication.
    pub fn anonymous() -> Self {
        Self::named("anonymous")
    }
}

fn bad_source(pair: &str) -> Error {
    Error::invalid(format!(
        "`{}` says nothing of a source: it takes {}, as word=value with `;` between, and a value of 1 to \
         {MAX_SOURCE_VALUE_BYTES} bytes",
        pair.trim().chars().take(100).collect::<String>(),
        SOURCE_WORDS.join(", ")
    ))
}

/// Author of the work of this task.
pub fn current() -> Arc<Author> {
    AUTHOR.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Author::program()))
}

/// Runs some work in the name of `author`.
pub fn by<F: Future>(author: Arc<Author>, work: F) -> impl Future<Output = F::Output> {
    AUTHOR.scope(author, work)
}

/// Keeps the present author for some work, wherever it is spawned.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    by(current(), work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_source_is_ordered_and_bounded() {
        let of = |pairs: &str| Author::program().from_source(pairs).map(|author| author.source.unwrap());
        assert_eq!(
            of("run=17;system=airflow ; dataset=s3://a/b?c=d").unwrap(),
            "system=airflow; run=17; dataset=s3://a/b?c=d"
        );
        assert_eq!(of("job=a;job=b").unwrap(), "job=b");
        let long = format!("job={}", "x".repeat(MAX_SOURCE_VALUE_BYTES + 1));
        for wrong in ["", "job", "job=", "team=x", "job=a;", "job=a\u{7}", &long] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn source_cannot_state_when_events_were_known() {
        let at = Timestamp::parse("2026-06-11T04:30:00.000001Z").unwrap();
        let stated = Author::program().from_source("run=17").unwrap().stating(at);
        assert_eq!(stated.source.as_deref(), Some("run=17; known_at=2026-06-11T04:30:00.000001Z"));
        assert_eq!(stated.source_values()[2], Some("17"));
        assert_eq!([stated.known_at(), Author::program().stating(at).known_at()], [Some(at); 2]);
        assert!(Author::program().from_source("known_at=2026-06-11T04:30:00Z").is_err());
        assert_eq!(Author::program().stating(at).into_source(), None);
        assert_eq!(stated.into_source().as_deref(), Some("run=17"));
        let hidden = Author::program().from_source("run=known_at=2026-06-11T04:30:00Z").unwrap();
        assert_eq!(hidden.known_at(), None);
    }

    #[tokio::test]
    async fn author_is_task_local_and_carried_into_spawns() {
        assert_eq!(*current(), Author::program());
        let ann = Arc::new(Author::named("user:ann"));
        by(Arc::clone(&ann), async {
            assert_eq!(current(), ann);
            assert_eq!(*tokio::spawn(async { current() }).await.unwrap(), Author::program());
            assert_eq!(tokio::spawn(carried(async { current() })).await.unwrap(), ann);
        })
        .await;
        assert_eq!(*current(), Author::program());
    }
}
