//! Rules of subscriptions: which messages a subscription takes, and what is changed in them.

mod wire;

use std::time::SystemTime;

use servicebus_amqp::types::{Map, Value};

use crate::entity;
use crate::error::{Error, ErrorKind, Result};

pub(crate) use wire::{description, read_description};

/// The rule that every subscription starts with: it takes all messages.
pub const DEFAULT_RULE: &str = "$Default";

/// The longest text of a SQL filter or action, in characters.
const MAX_EXPRESSION: usize = 1024;

/// A rule of a subscription. A message that meets the filter is copied into the subscription; each rule that it meets
/// and that has an action makes a copy of its own.
///
/// ```
/// use servicebus_core::rules::{CorrelationFilter, Rule};
///
/// let rule = Rule::new("urgent", CorrelationFilter::new().subject("alarm").property("level", 3))
///     .action("SET handled = FALSE");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rule {
    /// The name, at most 50 characters, unique in its subscription.
    pub name: String,
    /// Which messages it takes.
    pub filter: RuleFilter,
    /// What is changed in the copy of the message: a SQL action as `SET priority = 'high'; REMOVE draft`, at most
    /// 1024 characters.
    pub action: Option<String>,
    /// When the rule was made. The service's word; not sent.
    pub created_at: Option<SystemTime>,
}

/// Which messages a rule takes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RuleFilter {
    /// All.
    True,
    /// None.
    False,
    /// Those that a SQL condition holds for, as `sys.label = 'alarm' AND level > 2`; at most 1024 characters.
    Sql(String),
    /// Those whose properties have these values.
    Correlation(CorrelationFilter),
    /// A filter of a kind that this client does not know. It can be listed but not added.
    Unknown(Value),
}

/// Takes messages whose properties equal those that are set here. Cheaper for the service than SQL.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CorrelationFilter {
    /// The correlation id.
    pub correlation_id: Option<String>,
    /// The message id.
    pub message_id: Option<String>,
    /// The field `to`.
    pub to: Option<String>,
    /// The field `reply_to`.
    pub reply_to: Option<String>,
    /// The subject; called label on the wire.
    pub subject: Option<String>,
    /// The session id.
    pub session_id: Option<String>,
    /// The session that replies belong to.
    pub reply_to_session_id: Option<String>,
    /// The content type.
    pub content_type: Option<String>,
    /// Application properties, by name.
    pub application_properties: Map,
}

impl Rule {
    /// A rule of this name and filter, without an action.
    pub fn new(name: impl Into<String>, filter: impl Into<RuleFilter>) -> Self {
        Self {
            name: name.into(),
            filter: filter.into(),
            action: None,
            created_at: None,
        }
    }

    /// Sets [`action`](Self#structfield.action).
    #[must_use]
    pub fn action(mut self, sql: impl Into<String>) -> Self {
        self.action = Some(sql.into());
        self
    }

    /// Checks what the service limits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name that no rule can have, for a SQL text that is empty or too long, for a
    /// correlation filter without any property, and for an unknown filter.
    pub fn check(&self) -> Result<()> {
        entity::check_name("rule", &self.name)?;
        let invalid = |text: &'static str| Err(Error::new(ErrorKind::InvalidArgument, text));
        match &self.filter {
            RuleFilter::Sql(sql) if sql.trim().is_empty() => {
                return invalid("the SQL filter is empty");
            }
            RuleFilter::Sql(sql) => {
                crate::message::check_length("SQL filter", sql, MAX_EXPRESSION)?;
            }
            RuleFilter::Correlation(filter) if *filter == CorrelationFilter::default() => {
                return invalid("the correlation filter has no property to compare");
            }
            RuleFilter::Unknown(_) => {
                return invalid("a filter of an unknown kind cannot be added");
            }
            RuleFilter::Correlation(_) | RuleFilter::True | RuleFilter::False => {}
        }
        match &self.action {
            Some(sql) if sql.trim().is_empty() => invalid("the SQL action is empty"),
            Some(sql) => crate::message::check_length("SQL action", sql, MAX_EXPRESSION),
            None => Ok(()),
        }
    }
}

impl RuleFilter {
    /// Messages that a SQL condition holds for.
    pub fn sql(condition: impl Into<String>) -> Self {
        Self::Sql(condition.into())
    }
}

impl From<CorrelationFilter> for RuleFilter {
    fn from(filter: CorrelationFilter) -> Self {
        Self::Correlation(filter)
    }
}

macro_rules! setters {
    ($($name:ident),* $(,)?) => {
        $(
            #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
            #[must_use]
            pub fn $name(mut self, value: impl Into<String>) -> Self {
                self.$name = Some(value.into());
                self
            }
        )*
    };
}

impl CorrelationFilter {
    /// A filter that compares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        correlation_id, message_id, to, reply_to, subject, session_id, reply_to_session_id, content_type,
    }

    /// Compares an application property.
    #[must_use]
    pub fn property(mut self, name: impl AsRef<str>, value: impl Into<Value>) -> Self {
        self.application_properties.insert(name.as_ref(), value);
        self
    }
}
