#![allow(
    clippy::exhaustive_structs,
    reason = "descriptions are written as literals with `..Default::default()`"
)]

use std::time::Duration;

/// What may be done with an entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the service has these four")]
pub enum Status {
    /// Everything.
    #[default]
    Active,
    /// Nothing.
    Disabled,
    /// Receiving only.
    SendDisabled,
    /// Sending only.
    ReceiveDisabled,
}

impl Status {
    /// Whether messages may be sent to the entity.
    pub fn may_send(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    /// Whether messages may be received from the entity.
    pub fn may_receive(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}

/// The description of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// How long a lock on a message or session lasts. Default 1 min; 5 s to 5 min under the profiles with limits.
    pub lock_duration: Duration,
    /// How many failed deliveries send a message to the dead-letter queue. Default 10, at least 1.
    pub max_delivery_count: u32,
    /// The longest life of a message; `None`, the default, sets no limit.
    pub default_time_to_live: Option<Duration>,
    /// Whether expired messages go to the dead-letter queue; they are dropped otherwise, which is the default.
    pub dead_letter_on_expiration: bool,
    /// Whether every message belongs to a session. Cannot be changed later. Default false.
    pub requires_session: bool,
    /// How long message ids are remembered to drop duplicates; `None`, the default, does not look for duplicates.
    /// Whether it is set cannot be changed later.
    pub duplicate_detection: Option<Duration>,
    /// The entity that messages are passed on to.
    pub forward_to: Option<String>,
    /// The entity that dead-lettered messages are passed on to.
    pub forward_dead_lettered_to: Option<String>,
    /// The queue is deleted when nothing was done with it for this long; `None`, the default, keeps it.
    pub auto_delete_on_idle: Option<Duration>,
    /// How many bytes of messages the queue holds; `None`, the default, means what the profile says.
    pub max_size: Option<u64>,
    /// What may be done with the queue.
    pub status: Status,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            lock_duration: Duration::from_secs(60),
            max_delivery_count: 10,
            default_time_to_live: None,
            dead_letter_on_expiration: false,
            requires_session: false,
            duplicate_detection: None,
            forward_to: None,
            forward_dead_lettered_to: None,
            auto_delete_on_idle: None,
            max_size: None,
            status: Status::Active,
        }
    }
}

/// The description of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicOptions {
    /// The longest life of a message; `None`, the default, sets no limit.
    pub default_time_to_live: Option<Duration>,
    /// As for [`QueueOptions::duplicate_detection`].
    pub duplicate_detection: Option<Duration>,
    /// The topic is deleted when nothing was sent to it for this long; `None`, the default, keeps it.
    pub auto_delete_on_idle: Option<Duration>,
    /// How many bytes of messages the topic holds; `None`, the default, means what the profile says.
    pub max_size: Option<u64>,
    /// What may be done with the topic.
    pub status: Status,
}

/// The description of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// As for [`QueueOptions::lock_duration`].
    pub lock_duration: Duration,
    /// As for [`QueueOptions::max_delivery_count`].
    pub max_delivery_count: u32,
    /// As for [`QueueOptions::default_time_to_live`].
    pub default_time_to_live: Option<Duration>,
    /// As for [`QueueOptions::dead_letter_on_expiration`].
    pub dead_letter_on_expiration: bool,
    /// Whether a message on which a filter or action fails goes to the dead-letter queue; it is passed over
    /// otherwise. Default true.
    pub dead_letter_on_filter_error: bool,
    /// As for [`QueueOptions::requires_session`].
    pub requires_session: bool,
    /// As for [`QueueOptions::forward_to`].
    pub forward_to: Option<String>,
    /// As for [`QueueOptions::forward_dead_lettered_to`].
    pub forward_dead_lettered_to: Option<String>,
    /// As for [`QueueOptions::auto_delete_on_idle`].
    pub auto_delete_on_idle: Option<Duration>,
    /// What may be done with the subscription. It is filled even when disabled.
    pub status: Status,
}

impl Default for SubscriptionOptions {
    fn default() -> Self {
        Self {
            lock_duration: Duration::from_secs(60),
            max_delivery_count: 10,
            default_time_to_live: None,
            dead_letter_on_expiration: false,
            dead_letter_on_filter_error: true,
            requires_session: false,
            forward_to: None,
            forward_dead_lettered_to: None,
            auto_delete_on_idle: None,
            status: Status::Active,
        }
    }
}

/// Where a message goes that cannot be forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "there are these two")]
pub enum ForwardFailure {
    /// To the dead-letter queue of the entity that forwards.
    #[default]
    DeadLetter,
    /// To its transfer dead-letter queue.
    TransferDeadLetter,
}

/// The limits of a namespace. `None` means no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest message in bytes.
    pub message_size: Option<u64>,
    /// The largest batch in bytes.
    pub batch_size: Option<u64>,
    /// How many bytes of messages an entity holds.
    pub entity_size: Option<u64>,
    /// Properties and application properties in bytes; a message beyond it is dead-lettered.
    pub header_size: Option<usize>,
    /// Message, session and partition ids in characters.
    pub id_length: Option<usize>,
    /// The longest life of a message.
    pub time_to_live: Option<Duration>,
    /// Queues and topics.
    pub entities: Option<usize>,
    /// Subscriptions of one topic.
    pub subscriptions_per_topic: Option<usize>,
    /// Rules with SQL filters, of one topic.
    pub sql_filters_per_topic: Option<usize>,
    /// Rules with correlation filters, of one topic.
    pub correlation_filters_per_topic: Option<usize>,
    /// Lock durations, smallest and largest.
    pub lock_duration: Option<(Duration, Duration)>,
    /// The largest delivery limit.
    pub max_delivery_count: Option<u32>,
    /// Messages deleted by one call.
    pub batch_delete: u32,
    /// Messages peeked by one call.
    pub peek: usize,
    /// Messages in one transaction.
    pub transaction_messages: usize,
    /// How long a transaction may be open.
    pub transaction_time: Duration,
    /// How long an accept-next waits when the client does not say.
    pub accept_wait: Duration,
    /// Where messages go that cannot be forwarded.
    pub forward_failure: ForwardFailure,
}

impl Limits {
    /// No limit but those that are part of the semantics.
    pub fn unlimited() -> Self {
        Self {
            message_size: None,
            batch_size: None,
            entity_size: None,
            header_size: None,
            id_length: None,
            time_to_live: None,
            entities: None,
            subscriptions_per_topic: None,
            sql_filters_per_topic: None,
            correlation_filters_per_topic: None,
            lock_duration: None,
            max_delivery_count: None,
            batch_delete: 4000,
            peek: 250,
            transaction_messages: 100,
            transaction_time: Duration::from_secs(120),
            accept_wait: Duration::from_secs(60),
            forward_failure: ForwardFailure::DeadLetter,
        }
    }

    /// Those of the Standard tier.
    pub fn standard() -> Self {
        Self {
            message_size: Some(256 * 1024),
            batch_size: Some(256 * 1024),
            entity_size: Some(1 << 30),
            header_size: Some(64 * 1024),
            id_length: Some(128),
            entities: Some(10_000),
            subscriptions_per_topic: Some(2000),
            sql_filters_per_topic: Some(2000),
            correlation_filters_per_topic: Some(100_000),
            lock_duration: Some((Duration::from_secs(5), Duration::from_secs(300))),
            batch_delete: 500,
            ..Self::unlimited()
        }
    }

    /// Those of the Premium tier with large messages.
    pub fn premium() -> Self {
        Self {
            message_size: Some(100 << 20),
            batch_size: Some(1 << 20),
            batch_delete: 4000,
            ..Self::standard()
        }
    }

    /// Those of the official emulator.
    pub fn official_emulator() -> Self {
        Self {
            entity_size: Some(100 << 20),
            time_to_live: Some(Duration::from_secs(3600)),
            entities: Some(50),
            subscriptions_per_topic: Some(50),
            sql_filters_per_topic: Some(70),
            correlation_filters_per_topic: Some(1000),
            max_delivery_count: Some(10),
            ..Self::standard()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::unlimited()
    }
}
