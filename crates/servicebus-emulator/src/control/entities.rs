use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use servicebus_amqp::types::Timestamp;
use servicebus_emulator::broker::{
    Counts, MessageState, QueueOptions, Snapshot, SubscriptionOptions, TopicOptions,
};

use super::failure::{Body, Failure};
use super::{Scope, Shared, Target, namespace};

/// What to create. Times are in milliseconds; what is left out has the emulator's default.
#[derive(Debug, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(super) enum Creation {
    Queue {
        name: String,
        lock_duration: Option<u64>,
        max_delivery_count: Option<u32>,
        default_time_to_live: Option<u64>,
        #[serde(default)]
        dead_letter_on_expiration: bool,
        #[serde(default)]
        requires_session: bool,
        duplicate_detection: Option<u64>,
        forward_to: Option<String>,
        forward_dead_lettered_to: Option<String>,
        auto_delete_on_idle: Option<u64>,
    },
    Topic {
        name: String,
        default_time_to_live: Option<u64>,
        duplicate_detection: Option<u64>,
        auto_delete_on_idle: Option<u64>,
    },
    Subscription {
        topic: String,
        name: String,
        lock_duration: Option<u64>,
        max_delivery_count: Option<u32>,
        default_time_to_live: Option<u64>,
        #[serde(default)]
        dead_letter_on_expiration: bool,
        #[serde(default)]
        requires_session: bool,
        forward_to: Option<String>,
        forward_dead_lettered_to: Option<String>,
        auto_delete_on_idle: Option<u64>,
    },
}

/// An entity and how full it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    path: String,
    active: usize,
    deferred: usize,
    scheduled: usize,
    dead_letter: usize,
    transfer_dead_letter: usize,
    size: u64,
}

/// Everything in an entity.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Contents {
    #[serde(flatten)]
    entity: Described,
    messages: Vec<StoredMessage>,
    sessions: Vec<StoredSession>,
    receivers: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredMessage {
    sequence_number: i64,
    state: &'static str,
    message_id: Option<String>,
    session_id: Option<String>,
    delivery_count: u32,
    enqueued_at: i64,
    expires_at: Option<i64>,
    locked_until: Option<i64>,
    lock_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredSession {
    id: String,
    messages: usize,
    locked_until: Option<i64>,
}

pub(super) async fn list(
    State(emulator): Shared,
    Query(scope): Query<Scope>,
) -> Json<Vec<Described>> {
    let namespace = namespace(&emulator, scope.namespace.as_deref());
    let described = namespace
        .entities()
        .into_iter()
        .filter_map(|path| {
            // It may be deleted meanwhile.
            let counts = namespace.entity(&path).counts().ok()?;
            Some(Described::new(path, counts))
        })
        .collect();
    Json(described)
}

pub(super) async fn create(
    State(emulator): Shared,
    Query(scope): Query<Scope>,
    Body(creation): Body<Creation>,
) -> Result<(StatusCode, Json<Described>), Failure> {
    let namespace = namespace(&emulator, scope.namespace.as_deref());
    let entity = match creation {
        Creation::Queue {
            name,
            lock_duration,
            max_delivery_count,
            default_time_to_live,
            dead_letter_on_expiration,
            requires_session,
            duplicate_detection,
            forward_to,
            forward_dead_lettered_to,
            auto_delete_on_idle,
        } => {
            let default = QueueOptions::default();
            let options = QueueOptions {
                lock_duration: millis(lock_duration).unwrap_or(default.lock_duration),
                max_delivery_count: max_delivery_count.unwrap_or(default.max_delivery_count),
                default_time_to_live: millis(default_time_to_live),
                dead_letter_on_expiration,
                requires_session,
                duplicate_detection: millis(duplicate_detection),
                forward_to,
                forward_dead_lettered_to,
                auto_delete_on_idle: millis(auto_delete_on_idle),
                ..default
            };
            namespace.create_queue(&name, options)?
        }
        Creation::Topic {
            name,
            default_time_to_live,
            duplicate_detection,
            auto_delete_on_idle,
        } => {
            let options = TopicOptions {
                default_time_to_live: millis(default_time_to_live),
                duplicate_detection: millis(duplicate_detection),
                auto_delete_on_idle: millis(auto_delete_on_idle),
                ..TopicOptions::default()
            };
            namespace.create_topic(&name, options)?
        }
        Creation::Subscription {
            topic,
            name,
            lock_duration,
            max_delivery_count,
            default_time_to_live,
            dead_letter_on_expiration,
            requires_session,
            forward_to,
            forward_dead_lettered_to,
            auto_delete_on_idle,
        } => {
            let default = SubscriptionOptions::default();
            let options = SubscriptionOptions {
                lock_duration: millis(lock_duration).unwrap_or(default.lock_duration),
                max_delivery_count: max_delivery_count.unwrap_or(default.max_delivery_count),
                default_time_to_live: millis(default_time_to_live),
                dead_letter_on_expiration,
                requires_session,
                forward_to,
                forward_dead_lettered_to,
                auto_delete_on_idle: millis(auto_delete_on_idle),
                ..default
            };
            namespace.create_subscription(&topic, &name, options)?
        }
    };
    let described = Described::new(entity.path().to_owned(), entity.counts()?);
    Ok((StatusCode::CREATED, Json(described)))
}

pub(super) async fn delete(
    State(emulator): Shared,
    Query(target): Query<Target>,
) -> Result<StatusCode, Failure> {
    let namespace = namespace(&emulator, target.namespace.as_deref());
    namespace.entity(&target.path).delete()?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn snapshot(
    State(emulator): Shared,
    Query(target): Query<Target>,
) -> Result<Json<Contents>, Failure> {
    let namespace = namespace(&emulator, target.namespace.as_deref());
    Ok(Json(namespace.entity(&target.path).snapshot()?.into()))
}

pub(super) async fn purge(
    State(emulator): Shared,
    Query(target): Query<Target>,
) -> Result<Json<serde_json::Value>, Failure> {
    let namespace = namespace(&emulator, target.namespace.as_deref());
    let removed = namespace.entity(&target.path).purge()?;
    Ok(Json(serde_json::json!({ "removed": removed })))
}

fn millis(millis: Option<u64>) -> Option<Duration> {
    millis.map(Duration::from_millis)
}

impl Described {
    fn new(path: String, counts: Counts) -> Self {
        Self {
            path,
            active: counts.active,
            deferred: counts.deferred,
            scheduled: counts.scheduled,
            dead_letter: counts.dead_letter,
            transfer_dead_letter: counts.transfer_dead_letter,
            size: counts.size,
        }
    }
}

impl From<Snapshot> for Contents {
    fn from(snapshot: Snapshot) -> Self {
        let messages = snapshot.messages.iter().map(|stored| {
            let message = &stored.message;
            StoredMessage {
                sequence_number: message.sequence_number(),
                state: match message.state() {
                    MessageState::Active => "active",
                    MessageState::Deferred => "deferred",
                    MessageState::Scheduled => "scheduled",
                },
                message_id: message.message_id().map(|id| id.to_string()),
                session_id: message.session_id().map(|id| id.to_string()),
                delivery_count: message.delivery_count(),
                enqueued_at: message.enqueued_at().as_millis(),
                expires_at: message.expires_at().map(Timestamp::as_millis),
                locked_until: message.locked_until().map(Timestamp::as_millis),
                lock_token: stored.lock.map(|token| token.0.to_string()),
            }
        });
        let sessions = snapshot.sessions.iter().map(|session| StoredSession {
            id: session.id.to_string(),
            messages: session.messages,
            locked_until: session.locked_until.map(Timestamp::as_millis),
        });
        Self {
            messages: messages.collect(),
            sessions: sessions.collect(),
            receivers: snapshot.receivers.len(),
            entity: Described::new(snapshot.path.to_string(), snapshot.counts),
        }
    }
}
