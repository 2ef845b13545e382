//! Audit log on a table: recorded changes, their order, and the findings of a check.

use std::sync::Arc;

use event::{Clock, Id, Timestamp};
use table::{Condition, Item, Table, Update, Write, sqlite::SqliteTable};

use super::{Audited, Author, Record, by, chain, note};
use crate::key::{self, AuditLog, EntityId, Scope};

struct House {
    plain: Arc<dyn Table>,
    audited: Arc<dyn Table>,
    workspace: Id,
    _folder: tempfile::TempDir,
}

fn house() -> House {
    house_at(Clock::system())
}

/// Creates a house whose engine has this clock.
fn house_at(clock: Clock) -> House {
    let folder = tempfile::tempdir().unwrap();
    let plain: Arc<dyn Table> = Arc::new(SqliteTable::open(&folder.path().join("t.db"), clock).unwrap());
    let audited = Audited::shared(Arc::clone(&plain));
    House { plain, audited, workspace: Id::new(Timestamp::default()), _folder: folder }
}

impl House {
    fn audit_log(&self) -> AuditLog {
        AuditLog::Workspace(self.workspace.clone())
    }

    fn model(&self, name: &str) -> Item {
        let model = EntityId::Model(self.workspace.clone(), Id::new(Timestamp::default()));
        Item::new(model.key()).with("v", 1).with("ver", 1).with("name", name)
    }

    async fn records(&self, audit_log: &AuditLog) -> Vec<Record> {
        chain::records(&*self.plain, audit_log, 1, 1_000).await.unwrap()
    }
}

fn actions(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.action.as_str()).collect()
}

/// The clock of this process is ahead of the engine's by months: without the engine's time the later record would have that date,
/// too.
#[tokio::test]
async fn fast_writer_clock_does_not_date_audit_records() {
    let time = |text: &str| Timestamp::parse(text).unwrap();
    let engine = Arc::new(std::sync::Mutex::new(time("2026-06-01T10:00:00Z")));
    let told = Arc::clone(&engine);
    let house = house_at(Clock::from_fn(move || *told.lock().unwrap()));
    house.audited.put(house.model("churn"), Condition::Absent).await.unwrap();
    *engine.lock().unwrap() = time("2026-06-02T10:00:00Z");
    house.audited.put(house.model("risk"), Condition::Absent).await.unwrap();
    // An engine that is set back brings no record out of its order.
    *engine.lock().unwrap() = time("2026-06-01T12:00:00Z");
    let said = ("request.refuse", "user:ann");
    note(&*house.plain, &house.audit_log(), &Author::named("user:ann"), said, None).await.unwrap();
    let at: Vec<_> = house.records(&house.audit_log()).await.iter().map(|record| record.at).collect();
    assert_eq!(at, ["2026-06-01T10:00:00Z", "2026-06-02T10:00:00Z", "2026-06-02T10:00:00Z"].map(time));
}

#[tokio::test]
async fn audit_record_holds_state_before_and_after() {
    let house = house();
    let (table, model) = (&house.audited, house.model("churn"));
    let ann = Arc::new(Author::named("user:ann"));
    by(Arc::clone(&ann), async {
        table.put(model.clone(), Condition::Absent).await.unwrap();
        let update = Update::new(model.key.clone(), Condition::Exists);
        let renamed = update.clone().set("name", "risk").set("ver", 2);
        table.transact(vec![Write::Update(renamed)]).await.unwrap();
        let counted = update.clone().set("ver", 3).add("count_of_releases", 1);
        table.transact(vec![Write::Update(counted)]).await.unwrap();
        table.transact(vec![Write::Add(model.key.clone(), "followers".into(), 1)]).await.unwrap();
        table.delete(&model.key, Condition::None).await.unwrap();
        table.delete(&model.key, Condition::None).await.unwrap();
    })
    .await;
    let records = house.records(&house.audit_log()).await;
    assert_eq!(actions(&records), ["model.create", "model.change", "model.delete"]);
    assert!(records.iter().all(|record| record.author == *ann && record.object.starts_with("m_")));
    let [_, changed, deleted] = &records[..] else { panic!("three") };
    assert_eq!(changed.before.as_deref(), Some(r#"{"name":"churn"}"#));
    assert_eq!(changed.after.as_deref(), Some(r#"{"name":"risk"}"#));
    assert_eq!((deleted.name.as_deref(), deleted.after.as_deref()), (Some("risk"), None));
    assert_eq!(house.records(&AuditLog::Server).await, []);
}

#[tokio::test]
async fn refused_change_leaves_no_audit_record() {
    let house = house();
    let (table, model) = (&house.audited, house.model("churn"));
    table.put(model.clone(), Condition::Absent).await.unwrap();
    assert!(table.put(model.clone(), Condition::Absent).await.unwrap_err().is_conflict());
    let absent = Update::new(house.model("x").key, Condition::None).set("name", "y");
    let refused =
        table.transact(vec![Write::Update(absent), Write::Delete(model.key, Condition::None)]).await;
    assert!(refused.unwrap_err().is_conflict());
    assert_eq!(house.records(&house.audit_log()).await.len(), 1);
}

#[tokio::test]
async fn transaction_audits_several_audit_logs_with_pairs_once() {
    let house = house();
    let user = EntityId::User(Id::new(Timestamp::default()));
    let scope = Scope::Workspace(house.workspace.clone());
    let workspace = EntityId::Workspace(house.workspace.clone());
    let item = |key| Item::new(key).with("v", 1).with("role", "reader").with("name", "prod");
    let token = key::token(&[0xab; 32]);
    let writes = [
        key::grant(&scope, &user),
        key::granted(&user, &scope),
        key::member(&house.workspace, &user),
        key::membership(&user, &house.workspace),
        workspace.key(),
        token,
        key::settings(&house.workspace),
    ];
    let writes = writes.map(|key| Write::Put(item(key), Condition::None));
    house.audited.transact(writes.to_vec()).await.unwrap();
    let server = house.records(&AuditLog::Server).await;
    assert_eq!(actions(&server), ["member.add", "workspace.create", "token.create"]);
    assert!(!format!("{server:?}").contains("abab"), "the digest of a token is nowhere");
    assert_eq!(actions(&house.records(&house.audit_log()).await), ["grant.give", "settings.change"]);
    for (audit_log, records) in [(AuditLog::Server, 3), (house.audit_log(), 2)] {
        let checked = chain::verify(&*house.plain, &audit_log, None).await.unwrap();
        assert_eq!((checked.records, checked.broken), (records, None));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_form_one_complete_audit_chain() {
    let house = house();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..30 {
        let (table, model) = (Arc::clone(&house.audited), house.model(&format!("m{n}")));
        tasks.spawn(async move { table.put(model, Condition::Absent).await.unwrap() });
    }
    tasks.join_all().await;
    let records = house.records(&house.audit_log()).await;
    let numbers: Vec<u64> = records.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
    assert!(records.is_sorted_by_key(|record| record.at));
    let checked = chain::verify(&*house.plain, &house.audit_log(), None).await.unwrap();
    let head = chain::head(&*house.plain, &house.audit_log()).await.unwrap();
    assert_eq!((checked.records, checked.broken, checked.digest), (30, None, head.digest));
    let middle = records[14].at;
    let first = chain::first_since(&*house.plain, &house.audit_log(), middle).await.unwrap();
    assert!(first <= 15 && records[first as usize - 1].at == middle);
    let after = Timestamp::from_micros(head.at.micros() + 1).unwrap();
    assert_eq!(chain::first_since(&*house.plain, &house.audit_log(), after).await.unwrap(), 31);
}

#[tokio::test]
async fn a_check_says_where_an_audit_log_breaks() {
    let house = house();
    for n in 0..5 {
        let after = Some(format!("{{\"n\":{n}}}"));
        note(&*house.plain, &AuditLog::Server, &Author::program(), ("refused", "x"), after).await.unwrap();
    }
    let item = async |seq| {
        let key = key::audit_record(&AuditLog::Server, seq);
        house.plain.get(&key).await.unwrap().unwrap()
    };
    let broken = async || chain::verify(&*house.plain, &AuditLog::Server, None).await.unwrap().broken;
    assert_eq!(broken().await, None);
    let third = item(3).await;
    house.plain.put(third.clone().with("principal", "user:mallory"), Condition::None).await.unwrap();
    assert_eq!(broken().await, Some((3, "it was changed".to_owned())));
    // With a digest that fits, it breaks the next one.
    let (forged, _) = Record::from_item(&third).unwrap();
    let forged = Record { author: Author::named("user:mallory"), ..forged };
    house.plain.put(forged.to_item(), Condition::None).await.unwrap();
    assert_eq!(broken().await.unwrap().0, 4);
    house.plain.delete(&third.key, Condition::None).await.unwrap();
    assert_eq!(broken().await, Some((3, "record 3 is missing, 4 follows".to_owned())));
    house.plain.put(third.clone(), Condition::None).await.unwrap();
    assert_eq!(broken().await, None);
    house.plain.put(third.clone().with("v", 9), Condition::None).await.unwrap();
    assert_eq!(broken().await.unwrap().0, 3);
    house.plain.put(third, Condition::None).await.unwrap();
    // An audit log that is cut off, deleted, or rewritten as a whole is detected by a known record.
    let head = chain::head(&*house.plain, &AuditLog::Server).await.unwrap();
    let since =
        async |known| chain::verify(&*house.plain, &AuditLog::Server, Some(known)).await.unwrap().broken;
    assert_eq!(since((head.seq, head.digest)).await, None);
    assert_eq!(since((4, [7; 32])).await.unwrap().0, 4);
    for left in [4, 0] {
        for seq in left + 1..=head.seq {
            house.plain.delete(&key::audit_record(&AuditLog::Server, seq), Condition::None).await.unwrap();
        }
        assert_eq!(broken().await, None);
        let (first, said) = since((head.seq, head.digest)).await.unwrap();
        assert!(first == left + 1 && said.contains("missing, as are all up to 5"), "{first}: {said}");
    }
}
