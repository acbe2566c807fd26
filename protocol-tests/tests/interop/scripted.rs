//! Clients in other languages: a script gets a request as JSON and answers with what happened.

use std::process::Command;
use std::time::Duration;

use protocol_tests::peers::{Failure, run};
use serde::Deserialize;
use serde_json::json;

use crate::message::{Message, Node, Outcome, Sasl, Transport};

const LIMIT: Duration = Duration::from_secs(50);

#[derive(Deserialize)]
struct Answer {
    /// Without an error, none is missing.
    outcomes: Option<Vec<Option<Outcome>>>,
    messages: Option<Vec<Message>>,
    error: Option<String>,
}

pub(crate) async fn send(
    client: Command,
    to: &Node,
    messages: &[Message],
) -> Result<Vec<Outcome>, Failure> {
    let answer = ask(client, to, json!({ "do": "send", "messages": messages })).await?;
    let outcomes = answer.outcomes.ok_or("an answer without outcomes")?;
    Ok(outcomes
        .into_iter()
        .collect::<Option<_>>()
        .ok_or("an outcome is missing")?)
}

pub(crate) async fn receive(
    client: Command,
    from: &Node,
    outcomes: &[Outcome],
) -> Result<Vec<Message>, Failure> {
    let answer = ask(
        client,
        from,
        json!({ "do": "receive", "outcomes": outcomes }),
    )
    .await?;
    Ok(answer.messages.ok_or("an answer without messages")?)
}

pub(crate) async fn drain(
    client: Command,
    from: &Node,
    credit: u32,
    expected: usize,
) -> Result<Vec<Message>, Failure> {
    let request = json!({ "do": "drain", "credit": credit, "expected": expected });
    let answer = ask(client, from, request).await?;
    Ok(answer.messages.ok_or("an answer without messages")?)
}

async fn ask(
    client: Command,
    node: &Node,
    mut request: serde_json::Value,
) -> Result<Answer, Failure> {
    let (transport, authority) = match &node.transport {
        Transport::Tcp => ("tcp", None),
        Transport::Tls { authority } => ("tls", Some(authority)),
        Transport::WebSocket => ("websocket", None),
    };
    let (sasl, user, password) = match node.sasl {
        Sasl::None => ("none", None, None),
        Sasl::Anonymous => ("anonymous", None, None),
        Sasl::Plain { user, password } => ("plain", Some(user), Some(password)),
    };
    let route = json!({
        "port": node.port,
        "transport": transport,
        "ca": authority,
        "sasl": sasl,
        "user": user,
        "password": password,
        "answers_detach": node.answers_detach,
        "max_frame_size": node.max_frame_size,
        "address": node.address,
    });
    if let (Some(request), serde_json::Value::Object(route)) = (request.as_object_mut(), route) {
        request.extend(route);
    }
    let finished = run(client, &serde_json::to_vec(&request)?, LIMIT).await?;
    let answer: Answer = serde_json::from_str(&finished.stdout).map_err(|error| {
        format!(
            "{error} in the answer {:.400}\n{}",
            finished.stdout, finished.stderr
        )
    })?;
    match answer.error {
        Some(error) => Err(format!("{error}\n{}", finished.stderr).into()),
        None => Ok(answer),
    }
}
