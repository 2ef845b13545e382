//! Behaviour of the engine for rare events of a real DynamoDB, against a server that produces them on demand. The
//! conformance suite of the `tests` crate tests the everyday behaviour of DynamoDB.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use aws_config::{BehaviorVersion, Region, retry::RetryConfig};
use aws_sdk_dynamodb::config::Credentials;
use event::{ErrorKind, Timestamp};
use table::{Change, Index, Policy, update};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use super::client::Address;
use super::*;

/// Reaction of the server to a call of an operation.
enum Reply {
    Answer(&'static str),
    Refuse(&'static str),
    RefuseWith(&'static str),
    HangUp,
    /// Sends nothing, and keeps the connection.
    Stall,
}
use Reply::{Answer, HangUp, Refuse, RefuseWith, Stall};

/// Calls that the server expects, in order, with its reaction to each; and the requests received.
#[derive(Default)]
struct Play {
    calls: VecDeque<(&'static str, Reply)>,
    asked: Vec<serde_json::Value>,
}

type Script = Arc<Mutex<Play>>;

/// Returns a table behind a server that plays `script`, which must be played to its end.
async fn table(script: Vec<(&'static str, Reply)>) -> (DynamoTable, Script) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let script: Script = Arc::new(Mutex::new(Play { calls: script.into(), asked: Vec::new() }));
    let served = Arc::clone(&script);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&served)));
        }
    });
    let credentials = Credentials::new("key", "secret", None, None, "test");
    let shared = aws_config::SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .endpoint_url(&endpoint)
        .credentials_provider(aws_sdk_dynamodb::config::SharedCredentialsProvider::new(credentials))
        .retry_config(RetryConfig::disabled())
        .build();
    let place = Address { table: "almanac".into(), region: "eu-west-1".into(), endpoint: Some(endpoint) };
    let client = Client::with(&shared, place);
    let clock = Clock::from_fn(|| Timestamp::default().plus_seconds(1_000_000));
    (
        DynamoTable {
            client,
            clock,
            arn: "arn:table/almanac".into(),
            iterators: Iterators::default(),
            units: Units::new(),
        },
        script,
    )
}

/// Answers the calls that arrive over one connection.
async fn serve(stream: TcpStream, script: Script) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut operation, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim();
            match line.split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("x-amz-target") => {
                    operation = value.rsplit('.').next().unwrap().to_owned();
                }
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap()
                }
                _ if line.is_empty() => break,
                _ => {}
            }
        }
        let mut request = vec![0; length];
        stream.read_exact(&mut request).await.unwrap();
        let next = {
            let mut play = script.lock().unwrap();
            play.asked.push(serde_json::from_slice(&request).unwrap());
            play.calls.pop_front()
        };
        let (status, body) = match next {
            Some((expected, reply)) if expected == operation => match reply {
                Answer(body) => ("200 OK", body.to_owned()),
                Refuse(code) => (
                    "400 Bad Request",
                    format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"so it is"}}"#),
                ),
                RefuseWith(body) => ("400 Bad Request", body.to_owned()),
                HangUp => return,
                Stall => std::future::pending().await,
            },
            other => {
                let expected = other.map(|(expected, _)| expected);
                (
                    "400 Bad Request",
                    format!(r#"{{"__type":"x#Unscripted","message":"{operation} instead of {expected:?}"}}"#),
                )
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
    }
}

#[track_caller]
fn played(script: &Script) {
    let left: Vec<_> = script.lock().unwrap().calls.iter().map(|(operation, _)| *operation).collect();
    assert!(left.is_empty(), "these calls were not made: {left:?}");
}

fn item() -> Item {
    Item::new(Key::new("p", "s")).with("n", 7)
}

const STORED: &str = r#"{"Item":{"PK":{"S":"p"},"SK":{"S":"s"},"n":{"N":"7"}}}"#;
const OTHER: &str = r#"{"Item":{"PK":{"S":"p"},"SK":{"S":"s"},"n":{"N":"8"}}}"#;

#[tokio::test]
async fn put_with_lost_answer_is_settled_by_reading() {
    let lost = |stored| {
        vec![
            ("PutItem", HangUp),
            ("PutItem", Refuse("ConditionalCheckFailedException")),
            ("GetItem", Answer(stored)),
        ]
    };
    let (here, script) = table(lost(STORED)).await;
    here.put(item(), Condition::Absent).await.unwrap();
    played(&script);
    let (here, script) = table(lost(OTHER)).await;
    let error = here.put(item(), Condition::Absent).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Conflict, "item p / s exists already".into()));
    played(&script);
}

/// The answer of the first attempt is lost, and by the second another writer has counted.
#[tokio::test]
async fn counter_with_lost_answer_counts_once() {
    let counted = r#"{"Item":{"PK":{"S":"p"},"SK":{"S":"s"},"n":{"N":"7"},"ver":{"N":"1"}}}"#;
    let (here, script) = table(vec![
        ("GetItem", Answer(counted)),
        ("TransactWriteItems", HangUp),
        ("TransactWriteItems", Answer("{}")),
    ])
    .await;
    let policy = Policy { once: true, ..Policy::of(&"the counter") };
    let count = async |stored: Option<Item>| {
        let n = stored.unwrap().int("n")? + 1;
        Ok(Change::Put(item().with("n", n), n))
    };
    assert_eq!(update(&here, &item().key, policy, count).await.unwrap(), 8);
    let asked = script.lock().unwrap().asked.clone();
    let token = |at: usize| asked[at]["ClientRequestToken"].as_str().unwrap();
    assert_eq!(token(1), token(2), "DynamoDB makes requests of one token once");
    played(&script);
}

#[tokio::test]
async fn new_items_past_deadline_are_not_sent() {
    let (here, script) =
        table(vec![("PutItem", Answer("{}")), ("PutItem", Stall), ("GetItem", Answer("{}"))]).await;
    let items = ["a", "b", "c"].map(|sk| Item::new(Key::new("p", sk)));
    let (written, result) = here.put_new(items.into(), Duration::from_millis(1_500)).await;
    let error = result.unwrap_err();
    assert_eq!((written, error.kind()), (1, ErrorKind::Unavailable), "{error}");
    played(&script);
    // The rest of the time is too short for another write.
    let (here, script) = table(vec![("PutItem", Answer("{}"))]).await;
    let items = ["a", "b"].map(|sk| Item::new(Key::new("p", sk)));
    let (written, result) = here.put_new(items.into(), Duration::from_millis(900)).await;
    assert_eq!((written, result.unwrap_err().kind()), (1, ErrorKind::Throttled));
    played(&script);
}

#[tokio::test]
async fn a_put_that_was_refused_is_not_read() {
    let (here, script) = table(vec![
        ("PutItem", Refuse("ProvisionedThroughputExceededException")),
        ("PutItem", Refuse("ThrottlingException")),
        ("PutItem", Refuse("ConditionalCheckFailedException")),
    ])
    .await;
    assert!(here.put(item(), Condition::Exists).await.unwrap_err().is_conflict());
    played(&script);
}

#[tokio::test]
async fn delete_with_lost_answer_is_settled_by_reading() {
    let (here, script) = table(vec![
        ("DeleteItem", HangUp),
        ("DeleteItem", Refuse("ConditionalCheckFailedException")),
        ("GetItem", Answer("{}")),
    ])
    .await;
    here.delete(&item().key, Condition::Exists).await.unwrap();
    played(&script);
}

#[tokio::test]
async fn an_empty_page_is_passed_over() {
    let (here, script) = table(vec![
        ("Query", Answer(r#"{"Items":[],"LastEvaluatedKey":{"PK":{"S":"p"},"SK":{"S":"a"}}}"#)),
        ("Query", Answer(r#"{"Items":[{"PK":{"S":"p"},"SK":{"S":"s"},"n":{"N":"7"}}]}"#)),
    ])
    .await;
    let page = here.query(&Query::index(Index::Table, "p").limit(1)).await.unwrap();
    assert_eq!((page.items, page.next), (vec![item()], None));
    played(&script);
}

const SHARD: &str = "label/shard";
const ITERATOR: &str = r#"{"ShardIterator":"first"}"#;
const RECORD: &str = r#"{"NextShardIterator":"next","Records":[
    {"dynamodb":{"Keys":{"PK":{"S":"p"},"SK":{"S":"s"}},"SequenceNumber":"17"}}]}"#;
const NOTHING: &str = r#"{"NextShardIterator":"next","Records":[]}"#;

fn after(sequence: &str) -> Position {
    Position::After(sequence.to_owned())
}

async fn changes(here: &DynamoTable, from: &Position) -> Changes {
    here.changes(SHARD, from, Duration::ZERO).await.unwrap()
}

#[tokio::test]
async fn an_expired_iterator_is_replaced_without_a_gap() {
    let (here, script) = table(vec![
        ("GetShardIterator", Answer(ITERATOR)),
        ("GetRecords", Refuse("ExpiredIteratorException")),
        ("GetShardIterator", Answer(ITERATOR)),
        ("GetRecords", Refuse("LimitExceededException")),
        ("GetRecords", Answer(RECORD)),
    ])
    .await;
    let found = changes(&here, &after("16")).await;
    assert_eq!(found, Changes { keys: vec![item().key], next: Some(after("17")), gap: false });
    played(&script);
}

#[tokio::test]
async fn trimmed_changes_are_a_gap_and_reading_continues() {
    for (iterator, records) in [(true, false), (false, true)] {
        let mut calls = Vec::new();
        if iterator {
            calls.push(("GetShardIterator", Refuse("TrimmedDataAccessException")));
        }
        if records {
            calls.push(("GetShardIterator", Answer(ITERATOR)));
            calls.push(("GetRecords", Refuse("TrimmedDataAccessException")));
        }
        calls.extend([
            ("GetShardIterator", Answer(ITERATOR)),
            ("GetRecords", Answer(NOTHING)),
            ("GetRecords", Answer(RECORD)),
        ]);
        let (here, script) = table(calls).await;
        let found = changes(&here, &after("16")).await;
        assert!(found.gap && found.keys.is_empty(), "{found:?}");
        let found = changes(&here, &found.next.unwrap()).await;
        assert_eq!((found.gap, found.next), (false, Some(after("17"))), "a gap is told once");
        played(&script);
    }
}

#[tokio::test]
async fn missing_shard_is_a_gap_and_an_end() {
    let gone = Changes { keys: Vec::new(), next: None, gap: true };
    let (here, script) = table(vec![("GetShardIterator", Refuse("ResourceNotFoundException"))]).await;
    assert_eq!(changes(&here, &after("16")).await, gone);
    played(&script);
    let calls =
        vec![("GetShardIterator", Answer(ITERATOR)), ("GetRecords", Refuse("ResourceNotFoundException"))];
    let (here, script) = table(calls).await;
    assert_eq!(changes(&here, &Position::Oldest).await, gone);
    played(&script);
}

#[tokio::test]
async fn a_closed_shard_ends_after_its_last_change() {
    let last = r#"{"Records":[{"dynamodb":{"Keys":{"PK":{"S":"p"},"SK":{"S":"s"}},"SequenceNumber":"17"}}]}"#;
    let (here, script) =
        table(vec![("GetShardIterator", Answer(ITERATOR)), ("GetRecords", Answer(last))]).await;
    let found = changes(&here, &Position::Oldest).await;
    assert_eq!(found, Changes { keys: vec![item().key], next: None, gap: false });
    played(&script);
}

#[tokio::test]
async fn latest_position_is_resolved_once_and_kept() {
    let (here, script) = table(vec![
        ("GetShardIterator", Answer(ITERATOR)),
        ("GetRecords", Answer(NOTHING)),
        ("GetRecords", Answer(NOTHING)),
        ("GetRecords", Answer(RECORD)),
    ])
    .await;
    let start = changes(&here, &Position::Latest).await.next.unwrap();
    let quiet = changes(&here, &start).await;
    assert_eq!(
        quiet,
        Changes { keys: Vec::new(), next: Some(start.clone()), gap: false },
        "it stays where it is"
    );
    assert_eq!(changes(&here, &start).await.next, Some(after("17")));
    played(&script);
}

#[tokio::test]
async fn every_page_of_the_shards_is_read() {
    let table_with_stream = r#"{"Table":{
        "LatestStreamArn":"arn:table/almanac/stream/label","LatestStreamLabel":"label",
        "StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}}}"#;
    let first = r#"{"StreamDescription":{
        "LastEvaluatedShardId":"b","Shards":[{"ShardId":"b","ParentShardId":"a"}]}}"#;
    let (here, script) = table(vec![
        ("DescribeTable", Answer(table_with_stream)),
        ("DescribeStream", Answer(first)),
        ("DescribeStream", Answer(r#"{"StreamDescription":{"Shards":[{"ShardId":"a"}]}}"#)),
    ])
    .await;
    let shards = here.shards().await.unwrap();
    let shard = |id: &str, parent: Option<&str>| Shard { id: id.into(), parent: parent.map(str::to_owned) };
    assert_eq!(shards, [shard("label/a", None), shard("label/b", Some("label/a"))]);
    played(&script);
}

#[tokio::test]
async fn transaction_with_lost_answer_repeats_with_its_token() {
    let (here, script) = table(vec![
        ("TransactWriteItems", Refuse("TransactionInProgressException")),
        ("TransactWriteItems", HangUp),
        ("TransactWriteItems", Answer("{}")),
    ])
    .await;
    here.transact(vec![Write::Put(item(), Condition::Absent)]).await.unwrap();
    played(&script);
    let asked = &script.lock().unwrap().asked;
    assert!(asked[0]["ClientRequestToken"].is_string());
    assert!(asked.iter().all(|request| *request == asked[0]), "it is the same request, as DynamoDB demands");
}

#[tokio::test]
async fn a_cancelled_transaction_names_the_item_at_fault() {
    let busy = r#"{"__type":"x#TransactionCanceledException","Message":"cancelled",
        "CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]}"#;
    let refused = r#"{"__type":"x#TransactionCanceledException","Message":"cancelled",
        "CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"ConditionalCheckFailed"}]}"#;
    let calls = [busy, refused].map(|body| ("TransactWriteItems", RefuseWith(body)));
    let (here, script) = table(calls.into()).await;
    let check = Write::Check(Key::new("p", "other"), Condition::Exists);
    let error = here.transact(vec![Write::Put(item(), Condition::None), check]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.to_string(), "item p / other does not exist");
    played(&script);
}

#[tokio::test]
async fn missing_table_is_unavailable_rather_than_not_found() {
    let calls = ["GetItem", "Query", "PutItem", "DeleteItem", "TransactWriteItems"];
    let (here, script) = table(calls.map(|call| (call, Refuse("ResourceNotFoundException"))).into()).await;
    let failed = [
        here.get(&item().key).await.map(drop),
        here.query(&Query::index(Index::Table, "p")).await.map(drop),
        here.put(item(), Condition::Absent).await,
        here.delete(&item().key, Condition::None).await,
        here.transact(vec![Write::Put(item(), Condition::None)]).await,
    ];
    for error in failed.map(Result::unwrap_err) {
        let says = error.to_string();
        assert!(says.starts_with("table `almanac` at ") && says.contains(" is missing ("), "{says}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    played(&script);
}
