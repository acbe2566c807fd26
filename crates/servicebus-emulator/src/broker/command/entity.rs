//! Entities and their rules.

use crate::broker::{EntityId, QueueOptions, Rule, SubscriptionOptions, TopicOptions};

/// Creates a queue with its two dead-letter queues. The namespace comes into being with its first entity.
#[derive(Clone, Debug)]
pub struct CreateQueue {
    /// The namespace's name.
    pub namespace: String,
    /// The queue's path.
    pub name: String,
    /// Its description.
    pub options: QueueOptions,
}

/// Creates a topic.
#[derive(Clone, Debug)]
pub struct CreateTopic {
    /// The namespace's name.
    pub namespace: String,
    /// The topic's path.
    pub name: String,
    /// Its description.
    pub options: TopicOptions,
}

/// Creates a subscription with its two dead-letter queues.
#[derive(Clone, Debug)]
pub struct CreateSubscription {
    /// The topic.
    pub topic: EntityId,
    /// The subscription's name.
    pub name: String,
    /// Its description.
    pub options: SubscriptionOptions,
    /// Its rules; `None` gives it `$Default`, which takes every message.
    pub rules: Option<Vec<Rule>>,
}

/// Describes a queue anew. Links are detached and locks given back, as by the service.
#[derive(Clone, Debug)]
pub struct UpdateQueue {
    /// The queue.
    pub entity: EntityId,
    /// Its new description.
    pub options: QueueOptions,
}

/// Describes a topic anew.
#[derive(Clone, Debug)]
pub struct UpdateTopic {
    /// The topic.
    pub entity: EntityId,
    /// Its new description.
    pub options: TopicOptions,
}

/// Describes a subscription anew. Links are detached and locks given back, as by the service.
#[derive(Clone, Debug)]
pub struct UpdateSubscription {
    /// The subscription.
    pub entity: EntityId,
    /// Its new description.
    pub options: SubscriptionOptions,
}

/// Deletes a queue, topic or subscription with everything in and under it.
#[derive(Clone, Copy, Debug)]
pub struct DeleteEntity {
    /// The entity.
    pub entity: EntityId,
}

/// Deletes a namespace with all its entities.
#[derive(Clone, Debug)]
pub struct DeleteNamespace {
    /// The namespace's name.
    pub namespace: String,
}

/// Removes all messages of one entity, whatever their state, and all session state. Answers how many messages there
/// were.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// The entity.
    pub entity: EntityId,
}

/// Adds a rule to a subscription.
#[derive(Clone, Debug)]
pub struct AddRule {
    /// The subscription.
    pub subscription: EntityId,
    /// The rule.
    pub rule: Rule,
}

/// Removes a rule of a subscription.
#[derive(Clone, Debug)]
pub struct RemoveRule {
    /// The subscription.
    pub subscription: EntityId,
    /// The rule's name, in any case.
    pub name: String,
}

/// Lists the rules of a subscription in the order in which they were added.
#[derive(Clone, Copy, Debug)]
pub struct EnumerateRules {
    /// The subscription.
    pub subscription: EntityId,
    /// How many to pass over.
    pub skip: usize,
    /// How many to answer at most.
    pub top: usize,
}
