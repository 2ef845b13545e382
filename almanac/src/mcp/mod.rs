//! The Model Context Protocol: operations that only read, as tools for assistants, over standard input and output and at `/mcp`.

mod answer;
pub(crate) mod http;
mod protocol;

use std::{
    collections::HashMap,
    io::{self, BufRead, stdin},
    sync::{Arc, LazyLock},
    thread,
};

use anyhow::Context;
use axum::http::HeaderMap;
use serde_json::{Map, Value, json};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use self::protocol::{Failure, Message, Reply, Request, discovered};
use crate::{
    client::Client,
    config::Config,
    operations::tools::{Tool, tools},
};

/// The tools.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(tools);

/// Answers a request for a caller, whose way to the operations is `client`.
async fn answered(client: &Client, request: &Request, headers: Option<&HeaderMap>) -> Reply {
    let result = match request.check(headers) {
        Ok(()) => result(client, request).await,
        Err(failure) => Err(failure),
    };
    request.reply(result)
}

async fn result(client: &Client, request: &Request) -> Result<Value, Failure> {
    match (request.method.as_str(), request.is_per_request()) {
        ("initialize", false) => Ok(request.initialized()),
        ("ping", false) => Ok(json!({})),
        ("server/discover", true) => Ok(discovered()),
        ("tools/list", _) => Ok(json!({ "tools": TOOLS.iter().map(listed).collect::<Vec<_>>() })),
        ("tools/call", _) => called(client, &request.params).await,
        (method, _) => Err(Failure::no_method(method)),
    }
}

/// A tool in the list of tools.
fn listed(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description(),
        "inputSchema": tool.input_schema(),
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    })
}

/// Calls a tool. A problem that its operation answers is an answer of the tool as well.
async fn called(client: &Client, params: &Map<String, Value>) -> Result<Value, Failure> {
    let name = params.get("name").ok_or_else(|| Failure::invalid("`name` is missing"))?;
    let name = name.as_str().ok_or_else(|| Failure::invalid("`name` is no text"))?;
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| Failure::invalid(format!("there is no tool `{name}`")))?;
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err(Failure::invalid("`arguments` is no object")),
    };
    let (texts, is_error) = match answer::answer(client, tool, arguments).await {
        Ok(texts) => (texts, false),
        Err(error) => (vec![format!("{error:#}")], true),
    };
    let content: Vec<Value> = texts.into_iter().map(|text| json!({ "type": "text", "text": text })).collect();
    Ok(json!({ "content": content, "isError": is_error }))
}

/// Serves the tools on standard input and output, a message a line, until the input ends.
///
/// # Errors
/// Errors of opening the table, and of reading the input.
pub(crate) async fn command(config: &Config) -> anyhow::Result<()> {
    let client = Arc::new(Client::new(config, false).await?);
    let mut lines = lines_of_input();
    let (mut tasks, mut running) = (JoinSet::new(), HashMap::<String, AbortHandle>::new());
    while let Some(line) = lines.recv().await {
        while tasks.try_join_next().is_some() {}
        running.retain(|_, task| !task.is_finished());
        let line = line.context("the standard input cannot be read")?;
        match Message::read(&line) {
            Ok(Message::Request(request)) => {
                let (client, id) = (Arc::clone(&client), request.id.to_string());
                let answering = async move { print_line(&answered(&client, &request, None).await) };
                running.insert(id, tasks.spawn(answering));
            }
            Ok(Message::Notification { method, params }) if method == "notifications/cancelled" => {
                let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
                if let Some(task) = running.remove(&id) {
                    task.abort();
                }
            }
            Ok(Message::Notification { .. }) => {}
            Err(refused) => print_line(&refused),
        }
    }
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// Prints a reply at once: its line is written as a whole, since several tasks print.
fn print_line(reply: &Reply) {
    let line = format!("{}\n", reply.json());
    print!("{line}");
}

/// The lines of standard input that are not empty, read by a thread.
fn lines_of_input() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(16);
    thread::spawn(move || {
        let is_empty = |line: &io::Result<Vec<u8>>| matches!(line, Ok(line) if line.trim_ascii().is_empty());
        for line in stdin().lock().split(b'\n').filter(|line| !is_empty(line)) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
