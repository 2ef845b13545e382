//! `almanac up` as a child process, as its users run it: the real binary, a SQLite file, one
//! listener; ingest, projector and query share the machine with the sender.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::{
    data::{LABELS, RELEASES},
    load::http::{self, Answer, Connection},
    place::Place,
    process::{self, LOOK_EVERY, Server},
};

/// Workspace of all benchmarks.
pub const WORKSPACE: &str = "bench/loans";
/// Name of a further release, whose events are used as probes.
pub const PROBE_RELEASE: &str = "probe";
/// Media type of an object a line.
pub const NDJSON: &str = "application/x-ndjson";
/// Maximum time for the services to listen.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Maximum time for the projector to be up to date.
const PROJECTED_WITHIN: Duration = Duration::from_secs(24 * 3_600);

/// Services on a SQLite file in a folder of their own.
#[derive(Debug)]
pub struct Service {
    server: Server,
    /// Address on which they listen.
    pub address: SocketAddr,
    /// Folder of their data.
    pub folder: PathBuf,
}

impl Service {
    /// Starts them on a new table with a workspace, a model and its releases.
    ///
    /// # Errors
    /// Fails if they do not start.
    pub async fn start(place: &Place, name: &str) -> anyhow::Result<Self> {
        Self::start_with(place, name, &[]).await
    }

    /// Starts them as [`Self::start`] does, with these options of `almanac up`.
    ///
    /// # Errors
    /// Fails if they do not start.
    pub async fn start_with(place: &Place, name: &str, options: &[&str]) -> anyhow::Result<Self> {
        let folder = place.fresh(name)?;
        let service = Self::start_on(place, &folder, options)?;
        register(service.address).await?;
        Ok(service)
    }

    /// Starts them as [`Self::start`] does, and then again on the same table.
    ///
    /// # Errors
    /// Fails if they do not start.
    pub async fn start_again(place: &Place, name: &str) -> anyhow::Result<Self> {
        let folder = Self::start(place, name).await?.stop();
        Self::start_on(place, &folder, &[])
    }

    /// Starts them as [`Self::start_again`] does, requiring the returned token of callers.
    ///
    /// # Errors
    /// Fails if they do not start.
    pub async fn start_asking(place: &Place, name: &str) -> anyhow::Result<(Self, String)> {
        let folder = Self::start(place, name).await?.stop();
        let made = Command::new(&place.almanac).arg("--data").arg(&folder).arg("init").output()?;
        ensure!(made.status.success(), "almanac init: {}", String::from_utf8_lossy(&made.stderr));
        let token = String::from_utf8(made.stdout)?.trim().to_owned();
        Ok((Self::start_on(place, &folder, &[])?, token))
    }

    /// Starts them on the data in `folder`, with these options of `almanac up`.
    ///
    /// # Errors
    /// Fails if they do not start.
    pub fn start_on(place: &Place, folder: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let log = folder.join("log");
        let mut command = Command::new(&place.almanac);
        command.args(["--listen", "127.0.0.1:0", "--data"]).arg(folder).arg("up").args(options);
        command.env("ALMANAC_LOG", "warn,almanac=info").stdout(Stdio::null()).stderr(File::create(&log)?);
        for name in
            ["DATA", "STORE", "REGION", "ENDPOINT", "LISTEN", "CONFIG", "ADMIN_TOKEN", "ADMIN_TOKEN_FILE"]
        {
            command.env_remove(format!("ALMANAC_{name}"));
        }
        let mut server = Server::start(&mut command)?;
        let mut waited = Duration::ZERO;
        while waited < START_WITHIN && !server.has_ended() {
            if let Some(address) = listening(&fs::read_to_string(&log).unwrap_or_default()) {
                return Ok(Self { server, address, folder: folder.to_owned() });
            }
            thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        bail!("almanac up does not listen; it says: {}", fs::read_to_string(&log).unwrap_or_default())
    }

    /// Returns the path of a resource of the workspace, such as `predictions`.
    pub fn path(what: &str) -> String {
        format!("/v1/workspaces/{WORKSPACE}/{what}")
    }

    /// Returns the [`rows`] of a query of this service.
    ///
    /// # Errors
    /// Fails if the request does not succeed.
    pub async fn rows(&self, connection: &mut Connection, words: &str) -> anyhow::Result<Vec<Value>> {
        rows(connection, words).await
    }

    /// Waits as [`projected`] does, for this service.
    ///
    /// # Errors
    /// Fails after a timeout.
    pub async fn projected(
        &self,
        window: (&str, &str),
        predictions: u64,
        labelled: u64,
    ) -> anyhow::Result<()> {
        projected(self.address, window, predictions, labelled).await
    }

    /// Returns their address for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the processor time of the services so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        process::cpu_seconds(Some(self.server.id()))
    }

    /// Returns the peak resident memory of the services, in megabytes.
    pub fn peak_megabytes(&self) -> f64 {
        process::peak_megabytes(Some(self.server.id()))
    }

    /// Ends them, so that everything is in the file, and returns its folder.
    pub fn stop(mut self) -> PathBuf {
        self.server.stop();
        self.folder.clone()
    }
}

/// Registers the workspace, a model and its releases.
///
/// # Errors
/// Fails if the services refuse.
pub async fn register(address: SocketAddr) -> anyhow::Result<()> {
    let mut connection = Connection::open(address).await?;
    let releases = RELEASES.iter().chain([&PROBE_RELEASE]).map(|name| {
        json!({ "release": name, "model": "risk", "action": "register", "released_at": "2024-12-31T00:00:00Z" })
    });
    let model =
        json!({ "workspace": WORKSPACE, "name": "risk", "task": "binary", "positive_label": LABELS[1] });
    for (path, body) in [
        ("/v1/workspaces".to_owned(), json!({ "path": WORKSPACE })),
        ("/v1/models".to_owned(), model),
        (Service::path("releases"), releases.collect::<Value>()),
    ] {
        let body = body.to_string();
        let answer = connection.ask(&http::post(&path, "application/json", body.as_bytes())).await?;
        ensure!(answer.is_good(), "{path}: {}", answer.told());
    }
    Ok(())
}

/// Returns the rows of a query of the workspace, parsed from NDJSON.
///
/// # Errors
/// Fails if the request does not succeed.
pub async fn rows(connection: &mut Connection, words: &str) -> anyhow::Result<Vec<Value>> {
    let answer: Answer = connection.ask(&http::get(&Service::path(words))).await?;
    ensure!(answer.is_good(), "{words}: {}", answer.told());
    let rows = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    rows.map(|line| serde_json::from_slice(line).context("a row is no JSON")).collect()
}

/// Waits until the evaluations of a window cover `predictions` predictions and `labelled` outcomes.
///
/// # Errors
/// Fails after a timeout.
pub async fn projected(
    address: SocketAddr,
    window: (&str, &str),
    predictions: u64,
    labelled: u64,
) -> anyhow::Result<()> {
    let words = format!("evaluations?from={}&to={}&columns=predictions,labelled", window.0, window.1);
    let mut connection = Connection::open(address).await?;
    let mut waited = Duration::ZERO;
    loop {
        let rows = rows(&mut connection, &words).await?;
        let sum = |name: &str| rows.iter().filter_map(|row| row[name].as_u64()).sum::<u64>();
        let found = (sum("predictions"), sum("labelled"));
        if found == (predictions, labelled) {
            return Ok(());
        }
        ensure!(
            waited < PROJECTED_WITHIN,
            "the evaluations cover {found:?} events instead of {predictions} and {labelled}"
        );
        tokio::time::sleep(10 * LOOK_EVERY).await;
        waited += 10 * LOOK_EVERY;
    }
}

/// Returns the address in the log.
fn listening(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once("listening on http://")?;
    rest.split([',', '\n', ' ']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_log() {
        let log = "2026-01-01 INFO almanac::up: listening on http://127.0.0.1:40123, data in sqlite:/x\n";
        assert_eq!(listening(log).unwrap().port(), 40_123);
        assert_eq!(listening("INFO opening"), None);
    }
}
