//! The names on links and in requests.

/// Filters and properties of links.
pub(super) mod link {
    pub(in crate::gateway) const SESSION_FILTER: &str = "com.microsoft:session-filter";
    /// How long the service may wait for a session; uint, milliseconds.
    pub(in crate::gateway) const TIMEOUT: &str = "com.microsoft:timeout";
    /// Until when the session is locked; long, .NET ticks.
    pub(in crate::gateway) const LOCKED_UNTIL_UTC: &str = "com.microsoft:locked-until-utc";
    /// How large a batch may be, where that differs from a single message; long.
    pub(in crate::gateway) const MAX_MESSAGE_BATCH_SIZE: &str =
        "com.microsoft:max-message-batch-size";
}

/// Application properties of requests and replies.
pub(super) mod rpc {
    pub(in crate::gateway) const OPERATION: &str = "operation";
    /// The link that a request over management is about.
    pub(in crate::gateway) const ASSOCIATED_LINK_NAME: &str = "associated-link-name";
    pub(in crate::gateway) const TRACKING_ID: &str = "com.microsoft:tracking-id";
    // Clients read one spelling on management nodes and the other on $cbs.
    pub(in crate::gateway) const STATUS_CODE: &str = "statusCode";
    pub(in crate::gateway) const STATUS_DESCRIPTION: &str = "statusDescription";
    pub(in crate::gateway) const ERROR_CONDITION: &str = "errorCondition";
    pub(in crate::gateway) const CBS_STATUS_CODE: &str = "status-code";
    pub(in crate::gateway) const CBS_STATUS_DESCRIPTION: &str = "status-description";
    pub(in crate::gateway) const CBS_ERROR_CONDITION: &str = "error-condition";
    pub(in crate::gateway) const PUT_TOKEN: &str = "put-token";
    /// The audience of a token.
    pub(in crate::gateway) const NAME: &str = "name";
}

/// Keys in the bodies of requests and replies over management.
pub(super) mod key {
    pub(in crate::gateway) const LOCK_TOKENS: &str = "lock-tokens";
    pub(in crate::gateway) const LOCK_TOKEN: &str = "lock-token";
    pub(in crate::gateway) const EXPIRATIONS: &str = "expirations";
    pub(in crate::gateway) const EXPIRATION: &str = "expiration";
    pub(in crate::gateway) const FROM_SEQUENCE_NUMBER: &str = "from-sequence-number";
    pub(in crate::gateway) const MESSAGE_COUNT: &str = "message-count";
    pub(in crate::gateway) const SESSION_ID: &str = "session-id";
    pub(in crate::gateway) const OMIT_MESSAGE_BODY: &str = "omit-message-body";
    pub(in crate::gateway) const MESSAGES: &str = "messages";
    pub(in crate::gateway) const MESSAGE: &str = "message";
    pub(in crate::gateway) const SEQUENCE_NUMBERS: &str = "sequence-numbers";
    pub(in crate::gateway) const RECEIVER_SETTLE_MODE: &str = "receiver-settle-mode";
    pub(in crate::gateway) const DISPOSITION_STATUS: &str = "disposition-status";
    pub(in crate::gateway) const DEADLETTER_REASON: &str = "deadletter-reason";
    pub(in crate::gateway) const DEADLETTER_DESCRIPTION: &str = "deadletter-description";
    pub(in crate::gateway) const PROPERTIES_TO_MODIFY: &str = "properties-to-modify";
    pub(in crate::gateway) const SESSION_STATE: &str = "session-state";
    pub(in crate::gateway) const LAST_UPDATED_TIME: &str = "last-updated-time";
    pub(in crate::gateway) const SKIP: &str = "skip";
    pub(in crate::gateway) const TOP: &str = "top";
    /// Spelled like this by the service.
    pub(in crate::gateway) const SESSIONS_IDS: &str = "sessions-ids";
    pub(in crate::gateway) const RULE_NAME: &str = "rule-name";
    pub(in crate::gateway) const RULE_DESCRIPTION: &str = "rule-description";
    pub(in crate::gateway) const RULES: &str = "rules";
    pub(in crate::gateway) const ENQUEUED_TIME_UTC: &str = "enqueued-time-utc";
}
