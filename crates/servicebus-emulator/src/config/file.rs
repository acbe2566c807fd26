//! The file as it is written. Every mistake is found while reading, so that it can be told with its path.

use std::time::Duration;

use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected},
};
use servicebus_amqp::types::{Map, Value};

use super::duration;
use crate::{
    broker::{
        CorrelationFilter, Filter, QueueOptions, Rule, Status, SubscriptionOptions, TopicOptions,
    },
    sql,
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct File {
    pub(super) user_config: UserConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct UserConfig {
    pub(super) namespaces: Vec<Namespace>,
    #[serde(rename = "Logging")]
    _logging: Option<Logging>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Logging {
    #[serde(rename = "Type")]
    _kind: LoggingType,
}

/// Read and not obeyed: the emulator logs to standard error.
#[derive(Deserialize)]
enum LoggingType {
    File,
    Console,
    #[serde(rename = "File,Console", alias = "Console,File")]
    Both,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Namespace {
    pub(super) name: String,
    #[serde(default)]
    pub(super) queues: Vec<Queue>,
    #[serde(default)]
    pub(super) topics: Vec<Topic>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Queue {
    pub(super) name: String,
    #[serde(default)]
    pub(super) properties: QueueProperties,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Topic {
    pub(super) name: String,
    #[serde(default)]
    pub(super) properties: TopicProperties,
    #[serde(default)]
    pub(super) subscriptions: Vec<Subscription>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Subscription {
    pub(super) name: String,
    #[serde(default)]
    pub(super) properties: SubscriptionProperties,
    pub(super) rules: Option<Vec<RuleEntry>>,
}

/// The defaults are those of the official emulator.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
pub(super) struct QueueProperties {
    dead_lettering_on_message_expiration: bool,
    #[serde(deserialize_with = "time_to_live")]
    default_message_time_to_live: Option<Duration>,
    #[serde(deserialize_with = "window")]
    duplicate_detection_history_time_window: Duration,
    forward_dead_lettered_messages_to: String,
    forward_to: String,
    #[serde(deserialize_with = "lock_duration")]
    lock_duration: Duration,
    #[serde(deserialize_with = "delivery_count")]
    max_delivery_count: u32,
    requires_duplicate_detection: bool,
    requires_session: bool,
    // Ours.
    status: EntityStatus,
    #[serde(deserialize_with = "time_to_live")]
    auto_delete_on_idle: Option<Duration>,
    max_size_in_megabytes: Option<u32>,
    #[serde(rename = "UserMetadata")]
    _user_metadata: Option<String>,
}

impl Default for QueueProperties {
    fn default() -> Self {
        Self {
            dead_lettering_on_message_expiration: false,
            default_message_time_to_live: Some(Duration::from_secs(3600)),
            duplicate_detection_history_time_window: Duration::from_secs(20),
            forward_dead_lettered_messages_to: String::new(),
            forward_to: String::new(),
            lock_duration: Duration::from_secs(60),
            max_delivery_count: 3,
            requires_duplicate_detection: false,
            requires_session: false,
            status: EntityStatus::Active,
            auto_delete_on_idle: None,
            max_size_in_megabytes: None,
            _user_metadata: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
pub(super) struct TopicProperties {
    #[serde(deserialize_with = "time_to_live")]
    default_message_time_to_live: Option<Duration>,
    #[serde(deserialize_with = "window")]
    duplicate_detection_history_time_window: Duration,
    requires_duplicate_detection: bool,
    // Ours.
    status: EntityStatus,
    #[serde(deserialize_with = "time_to_live")]
    auto_delete_on_idle: Option<Duration>,
    max_size_in_megabytes: Option<u32>,
    #[serde(rename = "UserMetadata")]
    _user_metadata: Option<String>,
}

impl Default for TopicProperties {
    fn default() -> Self {
        Self {
            default_message_time_to_live: Some(Duration::from_secs(3600)),
            duplicate_detection_history_time_window: Duration::from_secs(20),
            requires_duplicate_detection: false,
            status: EntityStatus::Active,
            auto_delete_on_idle: None,
            max_size_in_megabytes: None,
            _user_metadata: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
pub(super) struct SubscriptionProperties {
    dead_lettering_on_message_expiration: bool,
    #[serde(deserialize_with = "time_to_live")]
    default_message_time_to_live: Option<Duration>,
    #[serde(deserialize_with = "lock_duration")]
    lock_duration: Duration,
    #[serde(deserialize_with = "delivery_count")]
    max_delivery_count: u32,
    forward_dead_lettered_messages_to: String,
    forward_to: String,
    requires_session: bool,
    // Ours.
    dead_lettering_on_filter_evaluation_exceptions: bool,
    status: EntityStatus,
    #[serde(deserialize_with = "time_to_live")]
    auto_delete_on_idle: Option<Duration>,
    #[serde(rename = "UserMetadata")]
    _user_metadata: Option<String>,
}

impl Default for SubscriptionProperties {
    fn default() -> Self {
        Self {
            dead_lettering_on_message_expiration: false,
            default_message_time_to_live: Some(Duration::from_secs(3600)),
            lock_duration: Duration::from_secs(60),
            max_delivery_count: 3,
            forward_dead_lettered_messages_to: String::new(),
            forward_to: String::new(),
            requires_session: false,
            dead_lettering_on_filter_evaluation_exceptions: true,
            status: EntityStatus::Active,
            auto_delete_on_idle: None,
            _user_metadata: None,
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
enum EntityStatus {
    Active,
    Disabled,
    SendDisabled,
    ReceiveDisabled,
}

impl From<EntityStatus> for Status {
    fn from(status: EntityStatus) -> Self {
        match status {
            EntityStatus::Active => Self::Active,
            EntityStatus::Disabled => Self::Disabled,
            EntityStatus::SendDisabled => Self::SendDisabled,
            EntityStatus::ReceiveDisabled => Self::ReceiveDisabled,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct RuleEntry {
    name: String,
    properties: RuleProperties,
}

#[derive(Deserialize)]
#[serde(
    rename_all = "PascalCase",
    deny_unknown_fields,
    try_from = "RuleFields"
)]
struct RuleProperties {
    filter: Filter,
    action: Option<sql::Action>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct RuleFields {
    filter_type: FilterType,
    correlation_filter: Option<Correlation>,
    sql_filter: Option<SqlFilter>,
    action: Option<SqlAction>,
}

#[derive(Deserialize)]
enum FilterType {
    Correlation,
    Sql,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct SqlFilter {
    #[serde(deserialize_with = "sql_filter")]
    sql_expression: sql::Filter,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct SqlAction {
    #[serde(default, deserialize_with = "sql_action")]
    sql_expression: Option<sql::Action>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Correlation {
    content_type: Option<String>,
    correlation_id: Option<String>,
    label: Option<String>,
    message_id: Option<String>,
    reply_to: Option<String>,
    reply_to_session_id: Option<String>,
    session_id: Option<String>,
    to: Option<String>,
    #[serde(default, deserialize_with = "properties")]
    properties: Map,
}

impl TryFrom<RuleFields> for RuleProperties {
    type Error = &'static str;

    fn try_from(fields: RuleFields) -> Result<Self, Self::Error> {
        let filter = match (
            fields.filter_type,
            fields.sql_filter,
            fields.correlation_filter,
        ) {
            (FilterType::Sql, Some(filter), _) => Filter::Sql(filter.sql_expression),
            (FilterType::Sql, None, _) => {
                return Err("FilterType is Sql, but there is no SqlFilter");
            }
            (FilterType::Correlation, _, None) => {
                return Err("FilterType is Correlation, but there is no CorrelationFilter");
            }
            (FilterType::Correlation, _, Some(filter)) => {
                let text = |text: Option<String>| text.map(Into::into);
                let filter = CorrelationFilter {
                    correlation_id: text(filter.correlation_id),
                    message_id: text(filter.message_id),
                    to: text(filter.to),
                    reply_to: text(filter.reply_to),
                    label: text(filter.label),
                    session_id: text(filter.session_id),
                    reply_to_session_id: text(filter.reply_to_session_id),
                    content_type: text(filter.content_type),
                    properties: filter.properties,
                };
                if filter.is_empty() {
                    return Err("CorrelationFilter must have at least one condition");
                }
                Filter::Correlation(Box::new(filter))
            }
        };
        Ok(Self {
            filter,
            action: fields.action.and_then(|action| action.sql_expression),
        })
    }
}

impl From<RuleEntry> for Rule {
    fn from(entry: RuleEntry) -> Self {
        Self {
            action: entry.properties.action,
            ..Self::new(entry.name, entry.properties.filter)
        }
    }
}

fn target(path: String) -> Option<String> {
    Some(path).filter(|path| !path.is_empty())
}

fn bytes(megabytes: Option<u32>) -> Option<u64> {
    megabytes.map(|megabytes| u64::from(megabytes) << 20)
}

impl From<QueueProperties> for QueueOptions {
    fn from(properties: QueueProperties) -> Self {
        Self {
            lock_duration: properties.lock_duration,
            max_delivery_count: properties.max_delivery_count,
            default_time_to_live: properties.default_message_time_to_live,
            dead_letter_on_expiration: properties.dead_lettering_on_message_expiration,
            requires_session: properties.requires_session,
            duplicate_detection: properties
                .requires_duplicate_detection
                .then_some(properties.duplicate_detection_history_time_window),
            forward_to: target(properties.forward_to),
            forward_dead_lettered_to: target(properties.forward_dead_lettered_messages_to),
            auto_delete_on_idle: properties.auto_delete_on_idle,
            max_size: bytes(properties.max_size_in_megabytes),
            status: properties.status.into(),
        }
    }
}

impl From<TopicProperties> for TopicOptions {
    fn from(properties: TopicProperties) -> Self {
        Self {
            default_time_to_live: properties.default_message_time_to_live,
            duplicate_detection: properties
                .requires_duplicate_detection
                .then_some(properties.duplicate_detection_history_time_window),
            auto_delete_on_idle: properties.auto_delete_on_idle,
            max_size: bytes(properties.max_size_in_megabytes),
            status: properties.status.into(),
        }
    }
}

impl From<SubscriptionProperties> for SubscriptionOptions {
    fn from(properties: SubscriptionProperties) -> Self {
        Self {
            lock_duration: properties.lock_duration,
            max_delivery_count: properties.max_delivery_count,
            default_time_to_live: properties.default_message_time_to_live,
            dead_letter_on_expiration: properties.dead_lettering_on_message_expiration,
            dead_letter_on_filter_error: properties.dead_lettering_on_filter_evaluation_exceptions,
            requires_session: properties.requires_session,
            forward_to: target(properties.forward_to),
            forward_dead_lettered_to: target(properties.forward_dead_lettered_messages_to),
            auto_delete_on_idle: properties.auto_delete_on_idle,
            status: properties.status.into(),
        }
    }
}

/// A duration that is longer than zero; `None` for no limit.
fn time_to_live<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match duration::parse(&text).map_err(Error::custom)? {
        Some(Duration::ZERO) => Err(Error::custom("the duration must be longer than zero")),
        duration => Ok(duration),
    }
}

fn limited<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    time_to_live(deserializer)?.ok_or_else(|| Error::custom("the duration is too long"))
}

fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let window = limited(deserializer)?;
    if window > Duration::from_secs(7 * 86_400) {
        return Err(Error::custom("the duration is longer than 7 days"));
    }
    Ok(window)
}

fn lock_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration = limited(deserializer)?;
    if duration > Duration::from_secs(300) {
        return Err(Error::custom("the duration is longer than 5 minutes"));
    }
    Ok(duration)
}

fn delivery_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(Error::invalid_value(Unexpected::Unsigned(0), &"at least 1")),
        count => Ok(count),
    }
}

fn sql_filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<sql::Filter, D::Error> {
    let text = String::deserialize(deserializer)?;
    sql::Filter::parse(&text, &[]).map_err(Error::custom)
}

/// An empty action is none; the official sample has such.
fn sql_action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<sql::Action>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    sql::Action::parse(&text, &[])
        .map(Some)
        .map_err(Error::custom)
}

fn properties<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map, D::Error> {
    let object = serde_json::Map::deserialize(deserializer)?;
    object
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                serde_json::Value::Bool(v) => Value::Bool(v),
                serde_json::Value::String(v) => v.into(),
                serde_json::Value::Number(v) => match (v.as_i64(), v.as_f64()) {
                    (Some(v), _) => Value::Long(v),
                    (None, Some(v)) => Value::Double(v),
                    (None, None) => {
                        return Err(Error::custom(format!("{name}: number out of range")));
                    }
                },
                _ => {
                    return Err(Error::custom(format!(
                        "{name}: expected text, a number, true or false"
                    )));
                }
            };
            Ok((Value::from(name), value))
        })
        .collect()
}
