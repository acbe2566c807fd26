//! The words that Service Bus puts on the wire: annotations, properties, operations, conditions.
//!
//! Only names, so that a broker may share them without sharing an encoder or a decoder.

/// The node that takes tokens.
pub const CBS_NODE: &str = "$cbs";
/// What follows an entity's address in the address of its management node.
pub const MANAGEMENT_SUFFIX: &str = "/$management";
/// The message format of a batch (`transfer.message-format`).
pub const BATCH_MESSAGE_FORMAT: u32 = 0x8001_3700;

/// Keys of message annotations.
pub mod annotation {
    /// When the message was enqueued: timestamp.
    pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
    /// The sequence number: long.
    pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
    /// The sequence number at the entity the message was first sent to: long.
    pub const ENQUEUED_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
    /// When the lock ends: timestamp.
    pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
    /// When a scheduled message becomes active: timestamp.
    pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
    /// The partition key: string.
    pub const PARTITION_KEY: &str = "x-opt-partition-key";
    /// The partition key at the entity a transaction sends through: string.
    pub const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";
    /// The entity in which the message was dead-lettered: string.
    pub const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";
    /// Active 0, deferred 1, scheduled 2: int.
    pub const MESSAGE_STATE: &str = "x-opt-message-state";
    /// The partition: an inheritance from Event Hubs.
    pub const PARTITION_ID: &str = "x-opt-partition-id";
    /// A delivery annotation that may repeat the lock token: uuid.
    pub const LOCK_TOKEN: &str = "x-opt-lock-token";
}

/// Keys of application properties that have a meaning.
pub mod property {
    /// Why a message was dead-lettered.
    pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
    /// Why a message was dead-lettered, in more words.
    pub const DEAD_LETTER_ERROR_DESCRIPTION: &str = "DeadLetterErrorDescription";
    /// The trace context of the sender, as older SDKs write it.
    pub const DIAGNOSTIC_ID: &str = "Diagnostic-Id";
    /// The W3C trace context of the sender.
    pub const TRACE_PARENT: &str = "traceparent";
    /// The rest of the W3C trace context.
    pub const TRACE_STATE: &str = "tracestate";

    /// Described type of a `TimeSpan`: long, units of 100 ns.
    pub const TIME_SPAN: &str = "com.microsoft:timespan";
    /// Described type of a `DateTimeOffset`: long, UTC ticks.
    pub const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";
    /// Described type of a `Uri`: string.
    pub const URI: &str = "com.microsoft:uri";
}

/// Operations of `$cbs` and `$management`.
pub mod operation {
    /// Authorises (`$cbs`).
    pub const PUT_TOKEN: &str = "put-token";
    /// Renews locks of messages.
    pub const RENEW_LOCK: &str = "com.microsoft:renew-lock";
    /// Looks at messages.
    pub const PEEK_MESSAGE: &str = "com.microsoft:peek-message";
    /// Sends messages that become active later.
    pub const SCHEDULE_MESSAGE: &str = "com.microsoft:schedule-message";
    /// Takes scheduled messages back.
    pub const CANCEL_SCHEDULED_MESSAGE: &str = "com.microsoft:cancel-scheduled-message";
    /// Receives deferred messages.
    pub const RECEIVE_BY_SEQUENCE_NUMBER: &str = "com.microsoft:receive-by-sequence-number";
    /// Settles messages by lock token.
    pub const UPDATE_DISPOSITION: &str = "com.microsoft:update-disposition";
    /// Renews the lock of a session.
    pub const RENEW_SESSION_LOCK: &str = "com.microsoft:renew-session-lock";
    /// Sets the state of a session.
    pub const SET_SESSION_STATE: &str = "com.microsoft:set-session-state";
    /// Reads the state of a session.
    pub const GET_SESSION_STATE: &str = "com.microsoft:get-session-state";
    /// Lists sessions.
    pub const GET_MESSAGE_SESSIONS: &str = "com.microsoft:get-message-sessions";
    /// Adds a rule to a subscription.
    pub const ADD_RULE: &str = "com.microsoft:add-rule";
    /// Removes a rule from a subscription.
    pub const REMOVE_RULE: &str = "com.microsoft:remove-rule";
    /// Lists the rules of a subscription.
    pub const ENUMERATE_RULES: &str = "com.microsoft:enumerate-rules";
    /// Deletes messages.
    pub const BATCH_DELETE_MESSAGES: &str = "com.microsoft:batch-delete-messages";
}

/// Error conditions of Service Bus; those of AMQP are in `servicebus_amqp::types::condition`.
pub mod condition {
    /// A wait at the service came to its end.
    pub const TIMEOUT: &str = "com.microsoft:timeout";
    /// The service throttles.
    pub const SERVER_BUSY: &str = "com.microsoft:server-busy";
    /// The lock of a message is over.
    pub const MESSAGE_LOCK_LOST: &str = "com.microsoft:message-lock-lost";
    /// The lock of a session is over.
    pub const SESSION_LOCK_LOST: &str = "com.microsoft:session-lock-lost";
    /// The session is locked by another receiver.
    pub const SESSION_CANNOT_BE_LOCKED: &str = "com.microsoft:session-cannot-be-locked";
    /// An older name for a lock that is over.
    pub const STORE_LOCK_LOST: &str = "com.microsoft:store-lock-lost";
    /// The partition moved within the service.
    pub const PARTITION_NOT_OWNED: &str = "com.microsoft:partition-not-owned";
    /// No message of this sequence number.
    pub const MESSAGE_NOT_FOUND: &str = "com.microsoft:message-not-found";
    /// No such session.
    pub const SESSION_NOT_FOUND: &str = "com.microsoft:session-not-found";
    /// No such entity.
    pub const ENTITY_NOT_FOUND: &str = "com.microsoft:entity-not-found";
    /// The entity is disabled.
    pub const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";
    /// There is one of this name already.
    pub const ENTITY_ALREADY_EXISTS: &str = "com.microsoft:entity-already-exists";
    /// No subscription takes the message.
    pub const NO_MATCHING_SUBSCRIPTION: &str = "com.microsoft:no-matching-subscription";
    /// An argument is wrong.
    pub const ARGUMENT_ERROR: &str = "com.microsoft:argument-error";
    /// An argument is out of its range.
    pub const ARGUMENT_OUT_OF_RANGE: &str = "com.microsoft:argument-out-of-range";
    /// The token is not valid.
    pub const AUTH_FAILED: &str = "com.microsoft:auth-failed";
    /// The publisher may not send any more (Event Hubs).
    pub const PUBLISHER_REVOKED: &str = "com.microsoft:publisher-revoked";
    /// The service gave the operation up.
    pub const OPERATION_CANCELLED: &str = "com.microsoft:operation-cancelled";
    /// The address is taken (Relay).
    pub const ADDRESS_ALREADY_IN_USE: &str = "com.microsoft:address-already-in-use";
    /// No such relay (Relay).
    pub const RELAY_NOT_FOUND: &str = "com.microsoft:relay-not-found";
    /// Client to service only: dead-letter this message.
    pub const DEAD_LETTER: &str = "com.microsoft:dead-letter";
}

/// Keys of link properties and source filters.
pub mod link {
    /// How long the service may wait, in milliseconds: uint.
    pub const TIMEOUT: &str = "com.microsoft:timeout";
    /// What kind of entity the link is for.
    pub const ENTITY_TYPE: &str = "com.microsoft:entity-type";
    /// The name the receiver goes by in the service's errors: string.
    pub const RECEIVER_NAME: &str = "com.microsoft:receiver-name";
    /// The filter that asks for a session: string, or null for any.
    pub const SESSION_FILTER: &str = "com.microsoft:session-filter";
    /// When the session's lock ends, in the service's answer: long, ticks.
    pub const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
    /// How large a batch may be, in the service's answer: an integer, bytes.
    pub const MAX_MESSAGE_BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";
    /// The entity a message goes to in the end, on a link to the entity it goes through: string.
    pub const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";
}

/// Application properties of requests and answers on `$cbs` and `$management`.
pub mod rpc {
    /// The operation: string.
    pub const OPERATION: &str = "operation";
    /// The type of a token, or of a node.
    pub const TYPE: &str = "type";
    /// The audience of a token.
    pub const NAME: &str = "name";
    /// When a token ends: timestamp.
    pub const EXPIRATION: &str = "expiration";
    /// How long the service may take, in milliseconds: uint.
    pub const SERVER_TIMEOUT: &str = "com.microsoft:server-timeout";
    /// A name for the request in both logs: string.
    pub const TRACKING_ID: &str = "com.microsoft:tracking-id";
    /// The link that the request is made for: string.
    pub const ASSOCIATED_LINK_NAME: &str = "associated-link-name";
    /// Status of an answer, as `$management` spells it.
    pub const STATUS_CODE: &str = "statusCode";
    /// Status of an answer, as `$cbs` spells it.
    pub const STATUS_CODE_CBS: &str = "status-code";
    /// Text of an answer, as `$management` spells it.
    pub const STATUS_DESCRIPTION: &str = "statusDescription";
    /// Text of an answer, as `$cbs` spells it.
    pub const STATUS_DESCRIPTION_CBS: &str = "status-description";
    /// Error condition of an answer, as `$management` spells it.
    pub const ERROR_CONDITION: &str = "errorCondition";
    /// Error condition of an answer, as `$cbs` spells it.
    pub const ERROR_CONDITION_CBS: &str = "error-condition";
}
