//! News of a workspace over HTTP, as server-sent events: that something moved, for pages that show it.
//!
//! A stream is short: after its time it asks to be renewed, and who may not read any more is refused then. It costs the table
//! nothing, since this process wrote or read it all anyway.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use event::{Error, Id, Right};
use futures::stream;
use log::notifications::{Listener, Topic};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep, sleep_until},
};
use web::{
    InPath, Operation, Problem, QueryParams, RequestContext, RequiredPermission, Routes, answer,
    openapi::path::ParameterIn, parameter, schema,
};

use crate::Query;

/// What it is called in paths and metrics.
const NAME: &str = "news";

/// The media type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// For how many seconds a stream tells, unless it is asked for fewer.
const SECONDS: u64 = 30;

/// How long it goes on telling after it has asked to be renewed, so that nothing falls between two.
const RENEWED_WITHIN: Duration = Duration::from_secs(5);

/// How often something is sent, so that nobody on the way takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How long news are gathered, since what belongs together is written by several calls.
const GATHER: Duration = Duration::from_millis(300);

/// The routes.
pub(super) fn routes(routes: Routes<Arc<Query>>) -> Routes<Arc<Query>> {
    routes.add(operation(), RequiredPermission::workspace(Right::Read).renewed(), tell)
}

fn operation() -> Operation {
    let seconds = schema::integer(1..=SECONDS as usize).default(Some(json!(SECONDS)));
    let seconds = parameter(ParameterIn::Query, "seconds", seconds, "For how many seconds it tells.");
    let topics = Topic::ALL.map(|topic| format!("`{}`", topic.name())).join(", ");
    Operation::get("/v1/workspaces/{category}/{name}/news", NAME)
        .tag("query")
        .summary("Hear when something of the workspace moves")
        .description(format!(
            "Server-sent events: `hello`, whose `reads_feed` says whether the process reads the table's change feed, by which it hears of other \
             processes (where several projector workers share the feed, of those in its part of it); `news`, with `topics` out of {topics}; and at the end `renew`: then ask again, and close this stream when the next one has said \
             `hello`.",
        ))
        .takes(seconds.example(Some(json!(1))))
        .answers(StatusCode::OK, answer("The events, as they come.", EVENTS, schema::string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    seconds: Option<u64>,
}

async fn tell(
    method: Method,
    State(query): State<Arc<Query>>,
    InPath(workspace): InPath,
    parameters: Result<QueryParams<Parameters>, Problem>,
) -> Response {
    let mut context = RequestContext::kind(NAME);
    let told = begin(&method, query, &workspace, parameters, &mut context).await;
    context.with(told)
}

async fn begin(
    method: &Method,
    query: Arc<Query>,
    workspace: &str,
    parameters: Result<QueryParams<Parameters>, Problem>,
    context: &mut RequestContext,
) -> Result<Response, Problem> {
    let QueryParams(parameters) = parameters?;
    let seconds = parameters.seconds.unwrap_or(SECONDS);
    if !(1..=SECONDS).contains(&seconds) {
        let detail = format!("seconds: from 1 to {SECONDS}, not {seconds}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let workspace = query.catalog().workspace(workspace).await?;
    context.workspace = Some(workspace.id().clone());
    let kept = [
        (header::CONTENT_TYPE, HeaderValue::from_static(EVENTS)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    if *method == Method::HEAD {
        return Ok((kept, Body::empty()).into_response());
    }
    let telling = Telling::begin(query, workspace.id(), Duration::from_secs(seconds))?;
    let events = stream::unfold(telling, async |mut telling: Telling| {
        telling.next().await.map(|event| (Ok::<_, Error>(event), telling))
    });
    Ok((kept, Body::from_stream(events)).into_response())
}

/// What was said last that is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Hello,
    Renew,
}

/// A stream of events.
struct Telling {
    listener: Arc<Listener>,
    renew_at: Instant,
    end_at: Instant,
    query: Arc<Query>,
    said: Said,
    _place: OwnedSemaphorePermit,
}

fn event(name: &str, data: &serde_json::Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn news(topics: &BTreeSet<Topic>) -> String {
    let names: Vec<&str> = topics.iter().map(|topic| topic.name()).collect();
    event("news", &json!({ "topics": names }))
}

impl Telling {
    /// One that asks to be renewed after `long`.
    fn begin(query: Arc<Query>, workspace: &Id, long: Duration) -> Result<Self, Error> {
        let place = query.news().place()?;
        let renew_at = Instant::now() + long;
        Ok(Self {
            listener: query.news().listen(workspace),
            renew_at,
            end_at: renew_at + RENEWED_WITHIN.min(long),
            query,
            said: Said::Nothing,
            _place: place,
        })
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if self.said == Said::Nothing {
            self.said = Said::Hello;
            return Some(event("hello", &json!({ "reads_feed": self.query.news().reads_feed() })));
        }
        loop {
            let until = if self.said == Said::Renew { self.end_at } else { self.renew_at };
            tokio::select! {
                biased;
                () = self.query.closed() => return None,
                // Before the news, of which there may always be some.
                () = sleep_until(until) => {
                    if self.said == Said::Renew {
                        return None;
                    }
                    self.said = Said::Renew;
                    return Some(event("renew", &json!({})));
                }
                () = self.listener.told() => {
                    sleep(GATHER).await;
                    let topics = self.listener.heard();
                    if !topics.is_empty() {
                        return Some(news(&topics));
                    }
                }
                () = sleep(HEARTBEAT) => return Some(":\n\n".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Clock;
    use log::{key, store::Store};
    use table::{Condition, Item, Table, sqlite::SqliteTable};

    use super::*;

    const LONG: Duration = Duration::from_secs(SECONDS);

    /// A stream of a workspace, and a table by which it is told.
    fn begin(folder: &std::path::Path, workspace: &Id) -> (Telling, Arc<dyn Table>) {
        let table = SqliteTable::open(&folder.join("t.db"), Clock::system()).unwrap();
        let store = Store::over(Arc::new(table));
        let news = store.news().clone();
        let table: Arc<dyn Table> = store;
        let query = Arc::new(Query::new(Arc::clone(&table), Clock::system()).telling(news));
        (Telling::begin(query, workspace, LONG).unwrap(), table)
    }

    fn name(event: Option<String>) -> String {
        event.unwrap().lines().next().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn news_stream_announces_renewal_and_continues_until_end() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let (mut telling, table) = begin(folder.path(), &workspace);
        let evaluation = || Item::new(key::evaluation(&workspace, 1, "2013-06-01".parse().unwrap()));
        let told = "event: news\ndata: {\"topics\":[\"evaluations\"]}\n\n";
        let began = Instant::now();
        assert_eq!(name(telling.next().await), "event: hello");
        table.put(evaluation(), Condition::None).await.unwrap();
        table.put(evaluation(), Condition::None).await.unwrap();
        assert_eq!(telling.next().await.unwrap(), told, "what comes together is told together");
        let mut beats = 0;
        let next = loop {
            match name(telling.next().await) {
                beat if beat == ":" => beats += 1,
                other => break other,
            }
        };
        assert_eq!((next.as_str(), beats, began.elapsed().as_secs()), ("event: renew", 2, SECONDS));
        // Until the next stream is there this one goes on, so nothing falls between them.
        table.put(evaluation(), Condition::None).await.unwrap();
        assert_eq!(telling.next().await.unwrap(), told);
        assert_eq!(telling.next().await, None);
        assert_eq!(began.elapsed().as_secs(), (LONG + RENEWED_WITHIN).as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn busy_news_stream_is_renewed_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let (mut telling, table) = begin(folder.path(), &workspace);
        let (began, mut said) = (Instant::now(), Vec::new());
        loop {
            let item = Item::new(key::evaluation(&workspace, 1, "2013-06-01".parse().unwrap()));
            table.put(item, Condition::None).await.unwrap();
            let Some(event) = telling.next().await else { break };
            said.push(event.lines().next().unwrap().to_owned());
            assert!(began.elapsed() < 10 * LONG, "it never ends");
        }
        assert_eq!(said.iter().filter(|said| *said == "event: renew").count(), 1);
        assert!(said.iter().filter(|said| *said == "event: news").count() > 10);
        assert!(began.elapsed() <= LONG + RENEWED_WITHIN + GATHER, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_nobody_is_to_wait() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let (mut telling, _) = begin(folder.path(), &workspace);
        assert_eq!(name(telling.next().await), "event: hello");
        telling.query.close();
        assert_eq!(telling.next().await, None);
    }
}
