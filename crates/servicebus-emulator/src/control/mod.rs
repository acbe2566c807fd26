//! The control API: JSON over HTTP, for tests in other languages.
//!
//! | request | |
//! |---|---|
//! | `GET /health` | 200 when a send succeeds, else 503 |
//! | `GET /$emulator/entities` | all entities with their counts |
//! | `POST /$emulator/entities` | creates a queue, topic or subscription |
//! | `DELETE /$emulator/entities?path=orders` | deletes one |
//! | `GET /$emulator/snapshot?path=orders` | everything in one |
//! | `POST /$emulator/purge?path=orders` | removes all messages of one |
//! | `POST /$emulator/faults` | orders a fault |
//! | `POST /$emulator/keys` | adds a shared access key |
//! | `GET /$emulator/clock`, `POST /$emulator/clock/advance` | reads and moves the clock |
//! | `POST /$emulator/reset` | deletes all entities |
//! | `GET /$emulator/frames` | the frame log as text |
//!
//! All but the clock take `namespace=name`; without it, they are about the default namespace.

mod entities;
mod failure;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use servicebus_emulator::{Emulator, Fault, Namespace, Rights};

use self::failure::{Body, Failure};
use crate::health;

/// The largest body of a request.
const MAX_BODY: usize = 1024 * 1024;

type Shared = State<Arc<Emulator>>;

pub(crate) fn router(emulator: Arc<Emulator>) -> Router {
    Router::new()
        .route("/health", get(report_health))
        .route(
            "/$emulator/entities",
            get(entities::list)
                .post(entities::create)
                .delete(entities::delete),
        )
        .route("/$emulator/snapshot", get(entities::snapshot))
        .route("/$emulator/purge", post(entities::purge))
        .route("/$emulator/faults", post(order_fault))
        .route("/$emulator/keys", post(add_key))
        .route("/$emulator/clock", get(read_clock))
        .route("/$emulator/clock/advance", post(advance_clock))
        .route("/$emulator/reset", post(reset))
        .route("/$emulator/frames", get(frames))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(emulator)
}

/// Which namespace a request is about.
#[derive(Debug, Deserialize)]
struct Scope {
    namespace: Option<String>,
}

/// Which entity a request is about.
#[derive(Debug, Deserialize)]
struct Target {
    namespace: Option<String>,
    path: String,
}

fn namespace(emulator: &Emulator, name: Option<&str>) -> Namespace {
    match name {
        Some(name) => emulator.namespace(name),
        None => emulator.default_namespace().clone(),
    }
}

async fn report_health(State(emulator): Shared) -> (StatusCode, Json<Value>) {
    match health::check(&emulator).await {
        Ok(()) => (StatusCode::OK, Json(json!({ "status": "healthy" }))),
        Err(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            Json(json!({ "status": "unhealthy", "reason": reason })),
        ),
    }
}

async fn order_fault(
    State(emulator): Shared,
    Query(scope): Query<Scope>,
    Body(fault): Body<Fault>,
) -> Result<StatusCode, Failure> {
    namespace(&emulator, scope.namespace.as_deref()).order(fault)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A shared access key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKey {
    name: String,
    key: String,
    rights: KeyRights,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum KeyRights {
    Manage,
    Send,
    Listen,
    SendListen,
}

async fn add_key(
    State(emulator): Shared,
    Query(scope): Query<Scope>,
    Body(new): Body<NewKey>,
) -> StatusCode {
    let rights = match new.rights {
        KeyRights::Manage => Rights::Manage,
        KeyRights::Send => Rights::Send,
        KeyRights::Listen => Rights::Listen,
        KeyRights::SendListen => Rights::SendListen,
    };
    namespace(&emulator, scope.namespace.as_deref()).add_key(&new.name, &new.key, rights);
    StatusCode::NO_CONTENT
}

/// The emulator's time.
#[derive(Debug, Serialize)]
struct Time {
    /// Milliseconds since 1970.
    millis: u64,
}

/// By how much to move the clock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    millis: u64,
}

async fn read_clock(State(emulator): Shared) -> Json<Time> {
    let since = emulator.now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    });
    Json(Time { millis })
}

async fn advance_clock(
    State(emulator): Shared,
    Body(advance): Body<Advance>,
) -> Result<Json<Time>, Failure> {
    emulator
        .advance(Duration::from_millis(advance.millis))
        .await?;
    Ok(read_clock(State(emulator)).await)
}

async fn reset(State(emulator): Shared, Query(scope): Query<Scope>) -> StatusCode {
    namespace(&emulator, scope.namespace.as_deref()).reset();
    StatusCode::NO_CONTENT
}

async fn frames(State(emulator): Shared) -> String {
    emulator.frames()
}
