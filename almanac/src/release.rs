//! `almanac release diff`: what two releases are made of where they differ.

use axum::body::Bytes;
use clap::Subcommand;
use event::Error;
use http_body_util::Full;
use hyper::Request;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::{
    client::Client,
    config::Config,
    shown::{Shown, show},
};

#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    /// Show what two releases are made of where they differ.
    Diff {
        /// One, by id or path, or by its name and -w.
        #[arg(value_name = "RELEASE")]
        one: String,
        /// The other one, likewise.
        #[arg(value_name = "OTHER")]
        other: String,
        /// The workspace that they are in, where they are named by name.
        #[arg(long, short)]
        workspace: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
}

/// Fields of every entity, in which two releases always differ.
const OWN: [&str; 6] = ["id", "name", "created_at", "updated_at", "archived_at", "version"];

/// Prints the fields in which two releases differ.
pub(crate) async fn command(config: &Config, command: ReleaseCommand) -> anyhow::Result<()> {
    let ReleaseCommand::Diff { one, other, workspace, shown } = command;
    let client = Client::new(config, false).await?;
    let mut found = Vec::new();
    for name in [one, other] {
        let path = workspace.iter().fold(name, |name, workspace| format!("{workspace}/{name}"));
        let path = format!("/v1/releases/{}", utf8_percent_encode(&path, NON_ALPHANUMERIC));
        let answer = client.send(Request::get(path).body(Full::<Bytes>::default())?).await?;
        let release: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| Error::unavailable("the answer is no JSON").because(error))?;
        found.push(release);
    }
    let fields = found[0].as_object().into_iter().flatten().map(|(field, _)| field);
    let differing =
        fields.filter(|field| !OWN.contains(&field.as_str()) && found[0][*field] != found[1][*field]);
    let rows =
        differing.map(|field| json!({ "field": field, "one": found[0][field], "other": found[1][field] }));
    show(&["field", "one", "other"], &rows.collect::<Vec<Value>>(), shown.format);
    Ok(())
}
