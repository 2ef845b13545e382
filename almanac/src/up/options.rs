//! How the services run.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ::access::Access;
use clap::ValueEnum;
use event::{Clock, Share};
use log::segment_cache;
use projector::deliver::WebhookSender;

use super::{Proxies, Times, Tls};
use crate::{
    health::READY_LAG,
    serve::{MAX_CONNECTIONS, WRITE_WITHIN},
};

/// A role that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Takes events, and creates workspaces, models and releases.
    Ingest,
    /// Folds the log into counters, rollups and evaluations.
    Projector,
    /// Answers questions.
    Query,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Ingest, Role::Projector, Role::Query];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Projector => "projector",
            Role::Query => "query",
        }
    }
}

/// How the services run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What they do.
    pub roles: Vec<Role>,
    /// Tells at what time events are appended.
    pub clock: Clock,
    /// A projector is ready while the oldest day that is not folded has waited no longer than this.
    pub ready_lag: Duration,
    /// How much queries may take.
    pub queries: query::Bounds,
    /// Of which keys the features are kept.
    pub features: Share,
    /// How long a client may take nothing of an answer before its connection is dropped.
    pub write_within: Duration,
    /// Finds out who calls. Without it nobody is asked.
    pub access: Option<Arc<Access>>,
    /// Whether it answers under names of this machine alone, as it must where nobody is asked because nobody else reaches it.
    pub own_names: bool,
    /// Whether MLflow's clients are served as well.
    pub mlflow: bool,
    /// Under which address MLflow's clients put artifacts, where an experiment names none.
    pub mlflow_artifacts: Option<String>,
    /// Metrics of live releases are on `/metrics`, in the role query, if true: their series name workspaces, models and releases.
    pub model_metrics: bool,
    /// How long requests may take, and connections are kept.
    pub times: Times,
    /// The certificate to listen with; without one, connections are not encrypted.
    pub tls: Option<Arc<Tls>>,
    /// Who is believed to say for whom it calls.
    pub proxies: Proxies,
    /// The most connections at one time.
    pub connections: usize,
    /// The SQLite file, whose size is one of the telemetry metrics.
    pub file: Option<PathBuf>,
    /// Posts what crossed to webhooks; without one it waits.
    pub sender: Option<Arc<dyn WebhookSender>>,
    /// How many bytes of events ingest hands over to the projector at most; with 0 it reads all of them.
    pub segment_cache: u64,
    /// Whether small segments of days that are over are merged.
    pub compacts: bool,
    /// How long a day that grows a little rests between folds.
    pub rest: Duration,
}

impl Options {
    /// All roles, as usual.
    pub fn new(clock: Clock) -> Self {
        Self {
            roles: Role::ALL.to_vec(),
            clock,
            ready_lag: READY_LAG,
            queries: query::Bounds::default(),
            features: Share::ALL,
            write_within: WRITE_WITHIN,
            access: None,
            own_names: false,
            mlflow: false,
            mlflow_artifacts: None,
            model_metrics: false,
            times: Times::default(),
            tls: None,
            proxies: Proxies::default(),
            connections: MAX_CONNECTIONS,
            file: None,
            sender: None,
            segment_cache: segment_cache::DEFAULT_BYTES,
            compacts: true,
            rest: Duration::ZERO,
        }
    }
}
