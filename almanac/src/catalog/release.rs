//! `almanac release create`: a release in the catalog, and the event of it in the log.

use ::catalog::new::NewRelease;
use catalog::{AnyEntity, Catalog, Release, ReleaseSpec};
use event::{Clock, Error, Kind, Timestamp};
use ingest::{Ingest, Remember, SubmitError, json::read_json_array};
use log::key::EntityKind;
use serde_json::json;

use super::{args::ReleaseArgs, entity::parse_attributes};
use crate::{config::Config, open};

pub(super) async fn create(config: &Config, args: ReleaseArgs) -> anyhow::Result<()> {
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let workspace = ingest.catalog().workspace(&args.workspace).await?;
    let now = ingest.clock().now();
    let note = args.note.clone();
    let release = ensure(ingest.catalog(), workspace.path.clone(), args, now).await?;
    let mut event = ingest.register_event(&release, note.as_deref()).await?;
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let event = json!([event]);
    let batch = read_json_array(Kind::Releases, event.to_string().as_bytes(), now)?;
    let key = format!("register/{}", release.entity.name);
    let is_known = match ingest.submit(&workspace, batch, Some(&key), Remember::Forever).await {
        Ok(receipt) => receipt.replayed,
        // The same release with another note.
        Err(SubmitError::Store(error)) if error.is_conflict() => true,
        Err(error) => return Err(error.into()),
    };
    println!(
        "release {} is {}",
        release.entity.name,
        if is_known { "registered already" } else { "registered" }
    );
    Ok(())
}

/// The release, created when it is new. One that is there must be made of the same.
async fn ensure(
    catalog: &Catalog,
    workspace: String,
    args: ReleaseArgs,
    now: Timestamp,
) -> anyhow::Result<Release> {
    let at = catalog.workspace(&workspace).await?;
    let spec = ReleaseSpec {
        name: args.name.clone(),
        model: args.model.clone(),
        configuration: args.configuration.clone(),
        environment: args.environment.clone(),
    };
    let path = format!("{workspace}/{}", args.name);
    match catalog.resolve(EntityKind::Release, &path).await {
        Ok(_) => return Ok(catalog.ensure_release(at.id(), &spec, now).await?),
        Err(error) if error.kind() == event::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let metrics = args.metrics.iter().map(|text| {
        let wrong = || Error::invalid(format!("`{text}` is not of the form NAME=NUMBER"));
        let (name, number) = text.split_once('=').ok_or_else(wrong)?;
        Ok((name.to_owned(), serde_json::from_str(number).map_err(|_| wrong())?))
    });
    let new = NewRelease {
        workspace,
        name: args.name,
        model: args.model,
        configuration: args.configuration,
        environment: args.environment,
        commit: args.commit,
        artefact_uri: args.artefact_uri,
        artefact_digest: args.artefact_digest,
        snapshot_from: args.snapshot_from,
        snapshot_to: args.snapshot_to,
        metrics: Some(metrics.collect::<Result<_, Error>>()?),
        notes: args.note,
        author: args.author,
        attributes: parse_attributes(args.attributes.as_deref())?,
    };
    match new.create(catalog, now).await {
        Ok(AnyEntity::Release(release)) => Ok(release),
        Ok(other) => Err(Error::corrupt(format!("{} is no release", other.at())).into()),
        // Somebody else was quicker.
        Err(error) if error.is_conflict() => Ok(catalog.ensure_release(at.id(), &spec, now).await?),
        Err(error) => Err(error.into()),
    }
}
