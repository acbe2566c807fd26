use std::{sync::Arc, time::Duration};

use servicebus_amqp::types::Timestamp;

use super::{
    EntityId, QueueOptions, Status, SubscriptionOptions, TopicOptions, log::Log, rule::Rule,
};

/// A queue, topic, subscription or dead-letter queue.
#[derive(Debug)]
pub(super) struct Entity {
    pub(super) id: EntityId,
    pub(super) namespace: Arc<str>,
    /// The path in the spelling of its creator.
    pub(super) path: Arc<str>,
    pub(super) kind: Kind,
    pub(super) policy: Policy,
    pub(super) log: Log,
    /// When something was last done with it.
    pub(super) used_at: Timestamp,
}

#[derive(Debug)]
pub(super) enum Kind {
    Queue {
        dead_letter: EntityId,
        transfer_dead_letter: EntityId,
    },
    Topic {
        subscriptions: Vec<EntityId>,
    },
    Subscription {
        topic: EntityId,
        dead_letter: EntityId,
        transfer_dead_letter: EntityId,
        rules: Vec<Rule>,
        dead_letter_on_filter_error: bool,
    },
    /// Of dead-lettered or of untransferable messages.
    DeadLetter {
        of: EntityId,
    },
}

/// What an entity does with its messages, whatever its kind.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) lock_duration: Duration,
    /// `None` in dead-letter queues: deliveries are not counted there.
    pub(super) max_delivery_count: Option<u32>,
    pub(super) time_to_live: Option<Duration>,
    pub(super) dead_letter_on_expiration: bool,
    pub(super) duplicate_detection: Option<Duration>,
    pub(super) forward_to: Option<Box<str>>,
    pub(super) forward_dead_lettered_to: Option<Box<str>>,
    pub(super) auto_delete_on_idle: Option<Duration>,
    pub(super) max_size: Option<u64>,
    pub(super) status: Status,
}

impl Policy {
    pub(super) fn of_queue(options: &QueueOptions) -> Self {
        Self {
            lock_duration: options.lock_duration,
            max_delivery_count: Some(options.max_delivery_count),
            time_to_live: options.default_time_to_live,
            dead_letter_on_expiration: options.dead_letter_on_expiration,
            duplicate_detection: options.duplicate_detection,
            forward_to: target(options.forward_to.as_deref()),
            forward_dead_lettered_to: target(options.forward_dead_lettered_to.as_deref()),
            auto_delete_on_idle: idle(options.auto_delete_on_idle, options.forward_to.as_deref()),
            max_size: options.max_size,
            status: options.status,
        }
    }

    pub(super) fn of_topic(options: &TopicOptions) -> Self {
        Self {
            duplicate_detection: options.duplicate_detection,
            time_to_live: options.default_time_to_live,
            auto_delete_on_idle: options.auto_delete_on_idle,
            max_size: options.max_size,
            status: options.status,
            ..Self::of_queue(&QueueOptions::default())
        }
    }

    pub(super) fn of_subscription(options: &SubscriptionOptions) -> Self {
        Self {
            lock_duration: options.lock_duration,
            max_delivery_count: Some(options.max_delivery_count),
            time_to_live: options.default_time_to_live,
            dead_letter_on_expiration: options.dead_letter_on_expiration,
            duplicate_detection: None,
            forward_to: target(options.forward_to.as_deref()),
            forward_dead_lettered_to: target(options.forward_dead_lettered_to.as_deref()),
            auto_delete_on_idle: idle(options.auto_delete_on_idle, options.forward_to.as_deref()),
            max_size: None,
            status: options.status,
        }
    }

    /// Of the dead-letter queues of an entity.
    pub(super) fn of_dead_letter(parent: &Self) -> Self {
        Self {
            max_delivery_count: None,
            time_to_live: None,
            dead_letter_on_expiration: false,
            duplicate_detection: None,
            forward_to: None,
            forward_dead_lettered_to: None,
            auto_delete_on_idle: None,
            max_size: None,
            ..parent.clone()
        }
    }
}

/// Forwarding targets may be given as URIs; an empty one means none.
fn target(path: Option<&str>) -> Option<Box<str>> {
    path.map(super::registry::normalise)
        .filter(|path| !path.is_empty())
        .map(String::into_boxed_str)
}

/// An entity that forwards is never idle.
fn idle(after: Option<Duration>, forward_to: Option<&str>) -> Option<Duration> {
    after.filter(|_| forward_to.is_none_or(str::is_empty))
}

impl Entity {
    /// The queue for its dead letters.
    pub(super) fn dead_letter(&self) -> Option<EntityId> {
        match self.kind {
            Kind::Queue { dead_letter, .. } | Kind::Subscription { dead_letter, .. } => {
                Some(dead_letter)
            }
            Kind::Topic { .. } | Kind::DeadLetter { .. } => None,
        }
    }

    /// The queue for what it cannot transfer.
    pub(super) fn transfer_dead_letter(&self) -> Option<EntityId> {
        match self.kind {
            Kind::Queue {
                transfer_dead_letter,
                ..
            }
            | Kind::Subscription {
                transfer_dead_letter,
                ..
            } => Some(transfer_dead_letter),
            Kind::Topic { .. } | Kind::DeadLetter { .. } => None,
        }
    }

    /// Whether messages can be received from it at all.
    pub(super) fn is_receivable(&self) -> bool {
        self.policy.status.may_receive() && self.policy.forward_to.is_none()
    }
}
