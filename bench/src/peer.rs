//! Peers: Python programs that do the work as their users would, and print their results as one JSON object of
//! numbers.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};

use crate::{
    load::http::{Connection, get},
    place::Place,
    process::{self, Server},
    rounds::Readings,
};

/// Number of threads that polars and DuckDB may use: as many as the machine of the goals has cores.
pub const THREADS: usize = 2;
/// Maximum time for MLflow to start: it makes its tables first.
const START_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs `bench/peers/<script>` to its end and returns its readings.
///
/// # Errors
/// Fails if the peers are not installed, or the script fails.
pub fn run(place: &Place, script: &str, args: &[&str]) -> anyhow::Result<Readings> {
    let mut command = python(place);
    command.arg(place.root.join("bench/peers").join(script)).args(args);
    let output = command.stderr(Stdio::piped()).output().context("Python does not start")?;
    ensure!(
        output.status.success(),
        "{script} failed: {}",
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().with_context(|| format!("{script} printed nothing"))?;
    serde_json::from_str(line).with_context(|| format!("{script} printed `{line}`"))
}

fn python(place: &Place) -> Command {
    let mut command = Command::new(place.venv.join("bin/python"));
    let threads = THREADS.to_string();
    for name in ["POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BENCH_THREADS"] {
        command.env(name, &threads);
    }
    // Telemetry is disabled.
    command.env("MLFLOW_DISABLE_TELEMETRY", "true").env("NML_DISABLE_USAGE_LOGGING", "1");
    command.env("DO_NOT_TRACK", "true").env("PYTHONWARNINGS", "ignore").stdin(Stdio::null());
    command
}

/// An MLflow tracking server with its SQLite backend.
#[derive(Debug)]
pub struct MlflowServer {
    server: Server,
    /// Address on which it listens.
    pub address: SocketAddr,
}

impl MlflowServer {
    /// Starts a server with a new database in `folder`.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn start(place: &Place, folder: &Path) -> anyhow::Result<Self> {
        // The port may be taken in the meantime; then the server ends with an error.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = python(place);
        command.args(["-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1"]);
        command.args(["--port", &address.port().to_string(), "--backend-store-uri"]);
        command.arg(format!("sqlite:///{}", folder.join("mlflow.db").display()));
        command.arg("--artifacts-destination").arg(folder.join("artifacts")).current_dir(folder);
        command.stdout(log.try_clone()?).stderr(log);
        let mut server = Server::start(&mut command)?;
        let mut waited = Duration::ZERO;
        while waited < START_WITHIN && !server.has_ended() {
            if is_healthy(address).await {
                return Ok(Self { server, address });
            }
            thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        anyhow::bail!("the MLflow server does not start; see {}", folder.join("log").display())
    }

    /// Returns its address for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the processor time of the server and its worker so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        process::group_cpu_seconds(self.server.id())
    }
}

async fn is_healthy(address: SocketAddr) -> bool {
    let Ok(mut connection) = Connection::open(address).await else { return false };
    connection.ask(&get("/health")).await.is_ok_and(|answer| answer.is_good())
}
