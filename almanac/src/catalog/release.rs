//! `almanac release create`: a release in the catalog, and the event of it in the log.

use ::catalog::new::NewRelease;
use event::{Clock, Error};
use ingest::Ingest;

use super::{args::ReleaseArgs, entity::parse_attributes};
use crate::{config::Config, open};

pub(super) async fn create(config: &Config, args: ReleaseArgs) -> anyhow::Result<()> {
    let ingest = Ingest::new(open::existing(config).await?, Clock::system());
    let new = asked(args)?;
    let workspace = ingest.catalog().workspace(&new.workspace).await?;
    let created = ingest.create_release(&workspace, new.spec()?).await?;
    let state = if created.was_registered { "registered already" } else { "registered" };
    println!("release {} is {state}", created.release.entity.name);
    Ok(())
}

fn asked(args: ReleaseArgs) -> Result<NewRelease, Error> {
    let metrics = args.metrics.iter().map(|text| {
        let wrong = || Error::invalid(format!("`{text}` is not of the form NAME=NUMBER"));
        let (name, number) = text.split_once('=').ok_or_else(wrong)?;
        Ok((name.to_owned(), serde_json::from_str(number).map_err(|_| wrong())?))
    });
    Ok(NewRelease {
        metrics: Some(metrics.collect::<Result<_, Error>>()?),
        attributes: parse_attributes(args.attributes.as_deref())?,
        workspace: args.workspace,
        name: args.name,
        model: args.model,
        configuration: args.configuration,
        environment: args.environment,
        commit: args.commit,
        artefact_uri: args.artefact_uri,
        artefact_digest: args.artefact_digest,
        snapshot_from: args.snapshot_from,
        snapshot_to: args.snapshot_to,
        notes: args.note,
        author: args.author,
    })
}
