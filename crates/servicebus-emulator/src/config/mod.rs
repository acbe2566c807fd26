//! The configuration file of the official emulator, `config.json`: JSON with comments.
//!
//! Every file that the official emulator takes is taken unchanged. What it lacks may be added: more than one namespace,
//! topics without subscriptions, and the keys `Status`, `AutoDeleteOnIdle`, `MaxSizeInMegabytes`, `UserMetadata` and
//! `DeadLetteringOnFilterEvaluationExceptions`. Unknown keys and values are errors, told with their path.
//!
//! ```
//! use servicebus_emulator::config::Config;
//!
//! let config = Config::parse(r#"{
//!     // The smallest file.
//!     "UserConfig": { "Namespaces": [ { "Name": "sbemulatorns", "Queues": [ { "Name": "orders" } ], "Topics": [] } ] }
//! }"#)?;
//! assert_eq!(config.namespaces[0].queues[0].name, "orders");
//!
//! let error = Config::parse(r#"{ "UserConfig": { "Namespaces": [ { "Name": "ns", "Queues": [
//!     { "Name": "orders", "Properties": { "LockDuration": "1 minute" } } ] } ] } }"#).unwrap_err();
//! assert_eq!(error.path(), "UserConfig.Namespaces[0].Queues[0].Properties.LockDuration");
//! # Ok::<(), servicebus_emulator::config::ConfigError>(())
//! ```

mod duration;
mod file;

use std::fmt;

use jsonc_parser::{ParseOptions, ast};
use servicebus_amqp::types::Timestamp;

use crate::broker::{
    Broker, CreateQueue, CreateSubscription, CreateTopic, EntityId, Error, QueueOptions, Rule,
    SubscriptionOptions, TopicOptions, UpdateQueue, UpdateSubscription,
};

/// The entities that a file declares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The namespaces.
    pub namespaces: Vec<NamespaceConfig>,
}

/// A namespace and its entities.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespaceConfig {
    /// Its name.
    pub name: String,
    /// Its queues.
    pub queues: Vec<QueueConfig>,
    /// Its topics.
    pub topics: Vec<TopicConfig>,
}

/// A queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueConfig {
    /// Its path.
    pub name: String,
    /// Its description.
    pub options: QueueOptions,
}

/// A topic and its subscriptions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TopicConfig {
    /// Its path.
    pub name: String,
    /// Its description.
    pub options: TopicOptions,
    /// Its subscriptions.
    pub subscriptions: Vec<SubscriptionConfig>,
}

/// A subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubscriptionConfig {
    /// Its name.
    pub name: String,
    /// Its description.
    pub options: SubscriptionOptions,
    /// Its rules; `None` means `$Default`.
    pub rules: Option<Vec<Rule>>,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    path: String,
    reason: String,
}

impl ConfigError {
    fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reason: reason.into(),
        }
    }

    /// Where: `UserConfig.Namespaces[0].Queues[2].Properties.LockDuration`; empty when the file is no JSON.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong; with line and column when the file is no JSON.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "{}: {}", self.path, self.reason)
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// When it is no JSON, or says something that is not known, not possible, or says it twice.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let options = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &options)
            .map_err(|error| ConfigError::new("", error.to_string()))?;
        let Some(value) = parsed.value else {
            return Err(ConfigError::new("", "The file is empty."));
        };
        check_keys(&value, "")?;
        let file: file::File = serde_path_to_error::deserialize(serde_json::Value::from(value))
            .map_err(|error| {
                let path = error.path().to_string();
                let path = if path == "." { String::new() } else { path };
                ConfigError::new(path, error.into_inner().to_string())
            })?;
        Ok(Self::from_file(file))
    }

    fn from_file(file: file::File) -> Self {
        let namespaces = file.user_config.namespaces.into_iter().map(|namespace| {
            let queues = namespace.queues.into_iter().map(|queue| QueueConfig {
                name: queue.name,
                options: queue.properties.into(),
            });
            let topics = namespace.topics.into_iter().map(|topic| TopicConfig {
                name: topic.name,
                options: topic.properties.into(),
                subscriptions: topic
                    .subscriptions
                    .into_iter()
                    .map(|subscription| SubscriptionConfig {
                        name: subscription.name,
                        options: subscription.properties.into(),
                        rules: subscription
                            .rules
                            .map(|rules| rules.into_iter().map(Rule::from).collect()),
                    })
                    .collect(),
            });
            NamespaceConfig {
                queues: queues.collect(),
                topics: topics.collect(),
                name: namespace.name,
            }
        });
        Self {
            namespaces: namespaces.collect(),
        }
    }

    /// Creates the entities. Those that forward may name targets that come later in the file.
    ///
    /// # Errors
    ///
    /// When the broker refuses one: its name is taken or illegal, a limit is reached, a target does not exist. The
    /// entities before it are there then.
    pub fn declare(&self, broker: &mut Broker, now: Timestamp) -> Result<(), ConfigError> {
        let mut queues = Vec::new();
        let mut subscriptions = Vec::new();
        for (n, namespace) in self.namespaces.iter().enumerate() {
            let at = format!("UserConfig.Namespaces[{n}]");
            for (q, queue) in namespace.queues.iter().enumerate() {
                let at = format!("{at}.Queues[{q}]");
                let id = queue.create(broker, now, &namespace.name);
                queues.push((at.clone(), refused(at, id)?, queue));
            }
            for (t, topic) in namespace.topics.iter().enumerate() {
                let at = format!("{at}.Topics[{t}]");
                let id = broker.apply(
                    now,
                    CreateTopic {
                        namespace: namespace.name.clone(),
                        name: topic.name.clone(),
                        options: topic.options.clone(),
                    },
                );
                let id = refused(at.clone(), id)?;
                for (s, subscription) in topic.subscriptions.iter().enumerate() {
                    let at = format!("{at}.Subscriptions[{s}]");
                    let created = subscription.create(broker, now, id);
                    subscriptions.push((at.clone(), refused(at, created)?, subscription));
                }
            }
        }
        for (at, entity, queue) in queues {
            let options = queue.options.clone();
            if options.forward_to.is_some() || options.forward_dead_lettered_to.is_some() {
                refused(at, broker.apply(now, UpdateQueue { entity, options }))?;
            }
        }
        for (at, entity, subscription) in subscriptions {
            let options = subscription.options.clone();
            if options.forward_to.is_some() || options.forward_dead_lettered_to.is_some() {
                refused(
                    at,
                    broker.apply(now, UpdateSubscription { entity, options }),
                )?;
            }
        }
        Ok(())
    }
}

impl QueueConfig {
    /// Creates the queue without its forwarding.
    fn create(
        &self,
        broker: &mut Broker,
        now: Timestamp,
        namespace: &str,
    ) -> Result<EntityId, Error> {
        broker.apply(
            now,
            CreateQueue {
                namespace: namespace.to_owned(),
                name: self.name.clone(),
                options: QueueOptions {
                    forward_to: None,
                    forward_dead_lettered_to: None,
                    ..self.options.clone()
                },
            },
        )
    }
}

impl SubscriptionConfig {
    /// Creates the subscription without its forwarding.
    fn create(
        &self,
        broker: &mut Broker,
        now: Timestamp,
        topic: EntityId,
    ) -> Result<EntityId, Error> {
        broker.apply(
            now,
            CreateSubscription {
                topic,
                name: self.name.clone(),
                options: SubscriptionOptions {
                    forward_to: None,
                    forward_dead_lettered_to: None,
                    ..self.options.clone()
                },
                rules: self.rules.clone(),
            },
        )
    }
}

fn refused<T>(path: String, result: Result<T, Error>) -> Result<T, ConfigError> {
    result.map_err(|error| {
        let text = error.text();
        let reason = text
            .split_once(" TrackingId:")
            .map_or(text, |(reason, _)| reason);
        ConfigError::new(path, reason)
    })
}

/// Refuses a key that comes twice in one object; readers would disagree about which of them counts.
fn check_keys(value: &ast::Value<'_>, path: &str) -> Result<(), ConfigError> {
    match value {
        ast::Value::Object(object) => {
            let mut seen = std::collections::HashSet::new();
            for property in &object.properties {
                let name = property.name.as_str();
                let path = match path {
                    "" => name.to_owned(),
                    path => format!("{path}.{name}"),
                };
                if !seen.insert(name) {
                    return Err(ConfigError::new(path, "the key appears twice"));
                }
                check_keys(&property.value, &path)?;
            }
            Ok(())
        }
        ast::Value::Array(array) => array
            .elements
            .iter()
            .enumerate()
            .try_for_each(|(index, element)| check_keys(element, &format!("{path}[{index}]"))),
        _ => Ok(()),
    }
}
