//! Alert rules and webhooks: projectors that die, are held up and take the lease from one another judge days and post what crosses to
//! receivers that miss it, lose their answers and hang. In the end each transition is recorded once, and came at least once under one id.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use catalog::{AlertRuleBody, Catalog, Delivery, Webhook};
use event::Result;
use projector::{
    alert::judge,
    deliver::{Posted, deliver},
};
use table::Item;
use tokio::{task::JoinHandle, time::sleep};

use super::{Op, PROCESSES, Planted, Scene, runtime};
use crate::{
    sim::random::Random,
    webhook_sender::{Does, Receiver},
};

/// Number of rules. Each fires in another minute of the virtual time.
const RULES: usize = 4;

/// To whom it is posted.
const WEBHOOKS: [&str; 2] = ["chat", "ops"];

/// Number of operations, and the longest pause between two.
const OPS: u64 = 24;
const MAX_MILLIS: u64 = 25_000;

/// Time until all is posted once nothing fails any more: the waits between the tries that failed.
const PATIENCE: Duration = Duration::from_secs(3 * 60 * 60);

/// Interval between looks.
const LOOK: Duration = Duration::from_secs(5);

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleTransition {
    /// Violations; none, if all is well.
    pub violations: Vec<String>,
    /// Parcels that came to a receiver, those included that came again.
    pub came: usize,
    /// Parcels that came again.
    pub repeated: usize,
    /// Number of times that a lease changed its owner.
    pub taken: u64,
}

/// Runs a seed.
///
/// # Panics
/// When there can be no runtime.
pub fn transitions(seed: u64, planted: Option<Planted>) -> RuleTransition {
    runtime().block_on(async {
        let mut scene = Scene::new(seed, planted, 1).await.expect("a catalog in memory");
        let is_healthy = Arc::new(AtomicBool::new(false));
        let receiver = Arc::new(receiver(seed, Arc::clone(&is_healthy)));
        scene.sender = Some(Arc::clone(&receiver) as _);
        while let Err(error) = scene.watch().await {
            assert!(error.may_pass(), "{error}");
        }
        for process in 0..PROCESSES {
            scene.apply(Op::Start { process }).await;
        }
        let mut late = Vec::new();
        for _ in 0..OPS {
            let process = scene.random.below(PROCESSES as u64) as usize;
            let op = match scene.random.below(10) {
                0 | 1 => Op::Crash { process },
                2 => Op::Stop { process },
                3..6 => Op::Start { process },
                6 | 7 => Op::Pause { process, millis: 100 + scene.random.below(20_000) },
                _ => Op::StealLease { process },
            };
            scene.apply(op).await;
            if scene.random.hits(2) {
                late.iter().for_each(JoinHandle::abort);
                late = vec![scene.late(&receiver), scene.late(&receiver)];
            }
            scene.apply(Op::Advance { millis: scene.random.below(MAX_MILLIS) }).await;
        }
        is_healthy.store(true, Ordering::Relaxed);
        scene.end(&receiver).await
    })
}

/// Receivers that take what comes once they are healthy, and before that now and then.
fn receiver(seed: u64, is_healthy: Arc<AtomicBool>) -> Receiver {
    let random = Random::new(seed ^ 0xC0_FFEE);
    Receiver::that(move |_| match random.below(8) {
        _ if is_healthy.load(Ordering::Relaxed) => Does::Takes,
        0 | 1 => Does::MissesIt,
        2 => Does::TakesSilently,
        3 => Does::Answers(Posted::Refused("400 Bad Request".to_owned())),
        4 => Does::Hangs,
        5 => Does::TakesAfter(Duration::from_millis(random.below(9_000))),
        _ => Does::Takes,
    })
}

impl Scene {
    /// Applies the rules: each wants predictions of today by another minute, and there are none.
    async fn watch(&mut self) -> Result<()> {
        let catalog = Catalog::new(self.table("people").1);
        let rule = |minute: usize| AlertRuleBody {
            name: format!("late-{minute}"),
            missing: Some("predictions".to_owned()),
            by: Some(format!("00:{:02}", minute + 1)),
            ..AlertRuleBody::default()
        };
        let webhooks = WEBHOOKS.map(|name| Webhook {
            name: name.to_owned(),
            url: Some(format!("https://{name}.example/")),
            ..Webhook::default()
        });
        let rules = (0..RULES).map(rule).collect();
        let now = self.clock.now();
        catalog.apply_alerts(&self.workspace, rules, webhooks.into(), now).await.map(drop)
    }

    /// One that judges and posts once as if it still had the lease that somebody else has by now.
    fn late(&mut self, receiver: &Arc<Receiver>) -> JoinHandle<()> {
        let (_, table) = self.table("late");
        let (workspace, clock, receiver) = (self.workspace.clone(), self.clock.clone(), Arc::clone(receiver));
        tokio::spawn(async move {
            let catalog = Catalog::new(Arc::clone(&table));
            // Failures are left to later judges and couriers.
            _ = judge(&*table, &catalog, &workspace, clock.now()).await;
            _ = deliver(&*table, &catalog, &*receiver, &clock).await;
        })
    }

    /// Lets everything settle, and says what is wrong.
    async fn end(mut self, receiver: &Receiver) -> RuleTransition {
        self.world.faults.store(0, Ordering::Relaxed);
        self.processes.iter().flatten().for_each(|running| running.gate.open());
        // One of them is enough, and passes the time sooner.
        for process in 1..PROCESSES {
            self.apply(Op::Crash { process }).await;
        }
        self.apply(Op::Start { process: 0 }).await;
        let mut waited = Duration::ZERO;
        while self.settled_deliveries() < RULES * WEBHOOKS.len() && waited < PATIENCE {
            self.look_at_processes().await;
            if !self.world.lock().violations.is_empty() {
                break;
            }
            sleep(LOOK).await;
            waited += LOOK;
        }
        self.look_at_transitions(receiver);
        let outcome = self.world.lock().outcome();
        let kinds: BTreeSet<_> =
            receiver.got().into_iter().map(|parcel| (parcel.webhook.name, parcel.id)).collect();
        let came = receiver.got().len();
        RuleTransition {
            violations: outcome.violations,
            came,
            repeated: came - kinds.len(),
            taken: outcome.taken,
        }
    }

    /// The items of transitions, or of deliveries.
    fn alert_items(&self, prefix: &str) -> Vec<Item> {
        let state = self.world.lock();
        let items = state.items.values().map(|stored| &stored.item);
        items.filter(|item| item.key.sk.starts_with(prefix)).cloned().collect()
    }

    fn settled_deliveries(&self) -> usize {
        let all = self.alert_items("delivery#");
        all.iter().filter(|item| item.optional_text("state") == Some("delivered")).count()
    }

    /// Each rule fired once, each transition came to each webhook under one id and with one body, and that is recorded.
    fn look_at_transitions(&self, receiver: &Receiver) {
        let texts = |items: &[Item], names: &[&str]| -> Vec<String> {
            let text = |item: &Item, name: &&str| item.optional_text(name).unwrap_or_default().to_owned();
            items
                .iter()
                .map(|item| names.iter().map(|name| text(item, name)).collect::<Vec<_>>().join(" "))
                .collect()
        };
        let rule_transition = texts(&self.alert_items("transition#"), &["rule", "what"]);
        let wanted: Vec<String> = (0..RULES).map(|rule| format!("late-{rule} fires")).collect();
        if rule_transition != wanted {
            self.violated(format!("what crossed is {rule_transition:?}"));
        }
        let delivered = texts(&self.alert_items("delivery#"), &["rule", "webhook", "state"]);
        let each = |rule: usize| WEBHOOKS.map(|webhook| format!("late-{rule} {webhook} delivered"));
        if delivered != (0..RULES).flat_map(each).collect::<Vec<_>>() {
            self.violated(format!("what was delivered is {delivered:?}"));
        }
        let mut bodies = BTreeMap::new();
        for parcel in receiver.got() {
            let body = bodies.entry((parcel.webhook.name, parcel.id)).or_insert_with(|| parcel.body.clone());
            if *body != parcel.body {
                self.violated(format!("two bodies came under one id: {body} and {}", parcel.body));
            }
        }
        let wanted: BTreeSet<(String, String)> = self
            .alert_items("delivery#")
            .iter()
            .filter_map(|item| Delivery::from_item(item).ok())
            .map(|one| {
                let id = format!("{}.{}", self.workspace, one.id);
                (one.webhook, id)
            })
            .collect();
        if bodies.keys().cloned().collect::<BTreeSet<_>>() != wanted {
            self.violated(format!("what came is {:?}", bodies.keys()));
        }
    }
}
