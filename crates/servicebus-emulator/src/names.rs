//! The names on the wire that the emulator knows: conditions, annotations, properties, reasons.
//!
//! These are the protocol's constants. Encoders and decoders of requests are the emulator's own, so that client and
//! broker cannot agree on the same mistake.

/// Error conditions of Service Bus, beyond those of AMQP.
pub mod condition {
    use servicebus_amqp::types::Symbol;

    macro_rules! conditions {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
            $($(#[$doc])* pub const $name: Symbol = Symbol::from_static($text);)*
        };
    }

    conditions! {
        /// An argument of a request is wrong.
        ARGUMENT_ERROR = "com.microsoft:argument-error";
        /// An argument of a request is outside of its range.
        ARGUMENT_OUT_OF_RANGE = "com.microsoft:argument-out-of-range";
        /// The condition of a `rejected` with which a client dead-letters.
        DEAD_LETTER = "com.microsoft:dead-letter";
        /// An entity or rule of this name exists.
        ENTITY_ALREADY_EXISTS = "com.microsoft:entity-already-exists";
        /// The entity's status forbids the operation.
        ENTITY_DISABLED = "com.microsoft:entity-disabled";
        /// The lock of a message is gone.
        MESSAGE_LOCK_LOST = "com.microsoft:message-lock-lost";
        /// No message with this sequence number.
        MESSAGE_NOT_FOUND = "com.microsoft:message-not-found";
        /// The service throttles.
        SERVER_BUSY = "com.microsoft:server-busy";
        /// Another receiver holds the session.
        SESSION_CANNOT_BE_LOCKED = "com.microsoft:session-cannot-be-locked";
        /// The lock of a session is gone.
        SESSION_LOCK_LOST = "com.microsoft:session-lock-lost";
        /// No session matches.
        SESSION_NOT_FOUND = "com.microsoft:session-not-found";
        /// The service's wait ended.
        TIMEOUT = "com.microsoft:timeout";
    }
}

/// Keys of message annotations.
pub mod annotation {
    /// When the message was stored; timestamp.
    pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
    /// The number of the message in its entity; long.
    pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
    /// The number of the message where it first entered; long.
    pub const ENQUEUE_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
    /// When the lock ends; timestamp.
    pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
    /// When the message is to become active; timestamp.
    pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
    /// The partition that the message goes to; string.
    pub const PARTITION_KEY: &str = "x-opt-partition-key";
    /// The entity that the message was dead-lettered from, when it was forwarded since; string.
    pub const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";
    /// Active 0, deferred 1, scheduled 2; int.
    pub const MESSAGE_STATE: &str = "x-opt-message-state";
    /// The lock token, as some clients read it; uuid.
    pub const LOCK_TOKEN: &str = "x-opt-lock-token";
}

/// Application properties that the broker sets.
pub mod property {
    /// Why a message was dead-lettered.
    pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
    /// Why a message was dead-lettered, in words.
    pub const DEAD_LETTER_ERROR_DESCRIPTION: &str = "DeadLetterErrorDescription";
    /// The rule whose action made this copy of a message.
    pub const RULE_NAME: &str = "RuleName";
}

/// Reasons and descriptions with which the broker dead-letters.
pub mod dead_letter {
    /// The delivery count reached its limit.
    pub const MAX_DELIVERY_COUNT: &str = "MaxDeliveryCountExceeded";
    /// The message outlived its time to live.
    pub const EXPIRED: &str = "TTLExpiredException";
    /// The description that goes with [`EXPIRED`].
    pub const EXPIRED_DESCRIPTION: &str = "The message expired and was dead lettered.";
    /// The message was forwarded too often.
    pub const HOP_COUNT: &str = "MaxTransferHopCountExceeded";
    /// The description that goes with [`HOP_COUNT`].
    pub const HOP_COUNT_DESCRIPTION: &str = "The maximum number of allowed hops when forwarding between queues has been \
        exceeded. This value is set to 4.";
    /// A message without session id reached an entity with sessions.
    pub const SESSION_ID_NULL: &str = "Session id is null.";
    /// The description that goes with [`SESSION_ID_NULL`].
    pub const SESSION_ID_NULL_DESCRIPTION: &str =
        "Session enabled entity doesn't allow a message whose session identifier is null.";
    /// Properties and application properties are too large.
    pub const HEADER_SIZE: &str = "HeaderSizeExceeded";
    /// The description that goes with [`HEADER_SIZE`].
    pub const HEADER_SIZE_DESCRIPTION: &str = "The size quota for this stream has been exceeded.";
    /// A filter or an action failed.
    pub const FILTER_EXCEPTION: &str = "FilterException";
    /// The target of forwarding does not take the message.
    pub const FORWARDING_FAILED: &str = "AutoForwardingFailed";
}

/// Parts of addresses, in lower case.
pub mod address {
    /// The sub-queue of dead-lettered messages.
    pub const DEAD_LETTER: &str = "/$deadletterqueue";
    /// The sub-queue of messages that could not be transferred.
    pub const TRANSFER_DEAD_LETTER: &str = "/$transfer/$deadletterqueue";
    /// Between a topic and a subscription.
    pub const SUBSCRIPTIONS: &str = "/subscriptions/";
    /// The rule that a subscription is born with.
    pub const DEFAULT_RULE: &str = "$Default";
}
