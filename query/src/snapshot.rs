//! Snapshots: the rows of a query are digested and kept by their read version, and read again by it. See [`catalog::Snapshot`].

use std::{collections::BTreeMap, sync::Arc};

use catalog::{
    AnyEntity, New, NewEntity, SNAPSHOT_WORDS, SNAPSHOTS_OF, Snapshot, SnapshotContent, new::NewSnapshot,
};
use event::{Error, Id, Result, Timestamp};
use futures::{FutureExt, TryStreamExt};
use log::{key::EntityId, read_version::ReadVersion};

use crate::{
    Point, Query,
    digest::FrameDigest,
    expired::may_expire,
    parts,
    read::Reading,
    request::{Dataset, Params, Request},
    work,
};

/// A snapshot whose rows were read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Current number of rows.
    pub rows: u64,
    /// Their digest.
    pub digest: String,
    /// Warnings of missing data.
    pub warnings: Vec<String>,
}

impl Verified {
    /// Returns true if the rows are unchanged since the creation of the snapshot.
    pub fn is_same(&self) -> bool {
        self.digest == self.snapshot.content.digest
    }
}

/// The result of reading rows for a digest.
struct Digested {
    digest: FrameDigest,
    read_version: ReadVersion,
    warnings: Vec<String>,
}

impl Query {
    /// Creates a snapshot: reads its rows once, in parts, and keeps their digest and their read version. Returns it with warnings of
    /// missing data.
    ///
    /// # Errors
    /// `Invalid`, if it asks for what a snapshot cannot keep; `Conflict`, if the name is taken or days expired meanwhile; errors
    /// of [`Query::run`].
    pub async fn create_snapshot(&self, new: &NewSnapshot) -> Result<(Snapshot, Vec<String>)> {
        let asked = asked(new);
        let named = asked.iter().map(|(name, text)| (*name, text.as_str()));
        let words = Params::of(named, self.now())?;
        let what = Dataset::parse(new.what.as_deref().unwrap_or(SNAPSHOTS_OF[0]))?;
        check_what(what)?;
        let mut request = Request::parse(what, &words)?;
        request.columns.clone_from(&new.columns);
        let workspace = self.catalog().workspace(&new.workspace).await?;
        let attributes = new.attributes()?;
        self.refuse_expired(workspace.id(), &request).await?;
        let Digested { digest, read_version, warnings } = self.digest(workspace.id(), &request).await?;
        let content = SnapshotContent {
            what: what.name().to_owned(),
            words: kept_words(&words, request.last.as_ref()),
            window: request.days_read(),
            columns: digest.names().to_vec(),
            as_of: read_version.as_of,
            rows: digest.rows(),
            digest: digest.text(),
            read_version: read_version.to_bytes()?,
        };
        let what = New::Snapshot { workspace: workspace.id().clone(), content: Box::new(content) };
        let new = NewEntity { name: new.name.clone(), attributes, what };
        match self.catalog().create(new, self.now()).await? {
            AnyEntity::Snapshot(snapshot) => Ok((snapshot, warnings)),
            other => Err(Error::corrupt(format!("{} is no snapshot", other.at()))),
        }
    }

    /// Refuses a snapshot of expired days: its rows would be a part of those days, and look like all.
    async fn refuse_expired(&self, workspace: &Id, request: &Request) -> Result<()> {
        if !may_expire(request.what) {
            return Ok(());
        }
        let point = Point::of(request);
        let kept = self.kept(workspace, &point).await?;
        match self.expired(workspace, &kept, point.window.days()).await? {
            Some(expired) => Err(Error::invalid(format!(
                "{expired} have expired; a snapshot is of days that have their events"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the request that reads the rows of a snapshot again.
    ///
    /// # Errors
    /// `NotFound`, if there is none of this name; `Invalid`, if it is of something else.
    pub async fn snapshot(&self, workspace: &Id, what: Dataset, name: &str) -> Result<Request> {
        let snapshot = self.catalog().snapshot(workspace, name).await?;
        if snapshot.content.what != what.name() {
            return Err(Error::invalid(format!(
                "snapshot: `{name}` is of {}, not of {}",
                snapshot.content.what,
                what.name()
            )));
        }
        request_of(&snapshot)
    }

    /// Reads the rows of a snapshot again, and digests them.
    ///
    /// # Errors
    /// `NotFound`, if there is no such snapshot; errors of [`Query::run`].
    pub async fn verify_snapshot(&self, at: &EntityId) -> Result<Verified> {
        let AnyEntity::Snapshot(snapshot) = self.catalog().get(at).await? else {
            return Err(Error::not_found(format!("{at} is no snapshot")));
        };
        let request = request_of(&snapshot)?;
        let Digested { digest, mut warnings, .. } = self.digest(&snapshot.workspace, &request).await?;
        let digest = (digest.rows(), digest.text());
        if digest.1 != snapshot.content.digest {
            warnings.extend(self.erased_since(&snapshot).await?);
        }
        Ok(Verified { rows: digest.0, digest: digest.1, snapshot, warnings })
    }

    /// Warns of keys of events of the workspace erased since a snapshot was made.
    async fn erased_since(&self, snapshot: &Snapshot) -> Result<Option<String>> {
        let erasures = self.catalog().erasures(&snapshot.workspace).await?;
        let is_since = |at: Option<Timestamp>| at.is_none_or(|at| at >= snapshot.entity.created_at);
        let since = erasures.iter().filter(|erasure| is_since(erasure.ended_at));
        let rows: u64 = since.map(|erasure| erasure.rows).sum();
        Ok((rows > 0).then(|| {
            format!("the keys of {rows} events of the workspace were erased since the snapshot was made")
        }))
    }

    /// Reads the rows of a request in parts, and digests them.
    async fn digest(&self, workspace: &Id, request: &Request) -> Result<Digested> {
        self.check_release(workspace, request).await?;
        let (_place, hold) = self.budget.enter_stream(workspace).await?;
        let _wanted = hold.wanted();
        let make = |reading: Arc<Reading>| async move { self.plan(&reading, request).await }.boxed();
        let (plan, reading) = self.out_of_logs(workspace, &Point::of(request), &hold, make).await?;
        let mut digest = FrameDigest::of_columns(&plan.no_rows()?);
        let (mut parts, fixed) = plan.parts(&reading);
        let (read_version, mut warnings) = reading.read_version();
        while let Some(part) = parts.try_next().await? {
            let adding = work::piece(move || {
                digest.add(&part.frame)?;
                Ok::<_, Error>((digest, part.bytes))
            });
            let bytes;
            (digest, bytes) = adding.await.map_err(parts::interrupted)??;
            hold.shrink(bytes);
        }
        let late = fixed.read_version().1.into_iter().filter(|warning| !warnings.contains(warning));
        let late: Vec<String> = late.collect();
        warnings.extend(late);
        Ok(Digested { digest, read_version, warnings })
    }
}

/// Returns the parameters of a new snapshot by name, as text.
fn asked(new: &NewSnapshot) -> Vec<(&'static str, String)> {
    let texts = [
        ("from", &new.from),
        ("to", &new.to),
        ("last", &new.last),
        ("release", &new.release),
        ("where", &new.filter),
        ("tag", &new.tag),
        ("key", &new.key),
        ("order", &new.order),
        ("as-of", &new.as_of),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?)));
    let numbers = [("limit", &new.limit), ("sample", &new.sample)];
    let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name, number.as_ref()?.to_string())));
    texts.chain(numbers).collect()
}

fn check_what(what: Dataset) -> Result<()> {
    match SNAPSHOTS_OF.contains(&what.name()) {
        true => Ok(()),
        false => Err(Error::invalid(format!("what: a snapshot is of {}", SNAPSHOTS_OF.join(", ")))),
    }
}

/// Returns the parameters that request the rows again. A window given by its length is stored by its ends.
fn kept_words(words: &Params<'_>, last: Option<&[String; 2]>) -> BTreeMap<String, String> {
    let [from, to] = last.map_or([words.from, words.to], |[from, to]| [from, to]);
    let words = Params { from, to, ..words.clone() };
    let kept = words.given().filter(|(name, _)| SNAPSHOT_WORDS.contains(name));
    kept.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

fn request_of(snapshot: &Snapshot) -> Result<Request> {
    let content = &snapshot.content;
    let words = content.words.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let words = Params::of(words, snapshot.entity.created_at)?;
    let request = Request::parse(Dataset::parse(&content.what)?, &words)?;
    let (columns, read_version) = (Some(content.columns.clone()), Some(Arc::new(content.read_version()?)));
    Ok(Request { columns, read_version, is_of_snapshot: true, ..request })
}
