//! Rules of subscriptions: which messages they take, and how they change their copy.

use servicebus_amqp::types::{ByteString, Map, MessageId, Timestamp, Value};

use super::{
    Broker, EntityId, Error, ErrorKind, Operation,
    checks::{MAX_NAME, already_exists, check_limit, check_name_length},
    command::{AddRule, EnumerateRules, RemoveRule},
    entity::{Entity, Kind},
};
use crate::sql::{self, Action, Record};

/// A rule.
#[derive(Clone, Debug)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a rule is these four things, and tests write it as a literal"
)]
pub struct Rule {
    /// Its name in its subscription.
    pub name: ByteString,
    /// Which messages it takes.
    pub filter: Filter,
    /// How it changes the copy; `None` leaves it alone.
    pub action: Option<Action>,
    /// When it was added; set by the broker.
    pub created_at: Timestamp,
}

/// Which messages a rule takes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Filter {
    /// All.
    True,
    /// None.
    False,
    /// Those for which an expression is true.
    Sql(sql::Filter),
    /// Those with these properties.
    Correlation(Box<CorrelationFilter>),
}

/// Properties that a message must have; `None` means any. Text is compared exactly, by case too.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the service has these and no others"
)]
pub struct CorrelationFilter {
    /// `correlation-id`
    pub correlation_id: Option<ByteString>,
    /// `message-id`
    pub message_id: Option<ByteString>,
    /// `to`
    pub to: Option<ByteString>,
    /// `reply-to`
    pub reply_to: Option<ByteString>,
    /// `subject`
    pub label: Option<ByteString>,
    /// `group-id`
    pub session_id: Option<ByteString>,
    /// `reply-to-group-id`
    pub reply_to_session_id: Option<ByteString>,
    /// `content-type`
    pub content_type: Option<ByteString>,
    /// Application properties.
    pub properties: Map,
}

impl Rule {
    /// The rule that a subscription is born with.
    pub fn default_rule() -> Self {
        Self::new(crate::names::address::DEFAULT_RULE, Filter::True)
    }

    /// A rule without action.
    pub fn new(name: impl Into<ByteString>, filter: Filter) -> Self {
        Self {
            name: name.into(),
            filter,
            action: None,
            created_at: Timestamp::default(),
        }
    }
}

impl Filter {
    /// Whether it takes every message, or none, whatever is in it.
    pub(super) fn is_constant(&self) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::False => Some(false),
            Self::Sql(_) | Self::Correlation(_) => None,
        }
    }

    /// Whether it takes a message.
    pub(super) fn matches(&self, record: &Record) -> Result<bool, sql::EvaluateError> {
        match self {
            Self::True => Ok(true),
            Self::False => Ok(false),
            Self::Sql(filter) => filter.matches(record),
            Self::Correlation(filter) => Ok(filter.matches(record)),
        }
    }
}

impl CorrelationFilter {
    /// Whether it asks for nothing, which the service refuses.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn matches(&self, record: &Record) -> bool {
        let properties = &record.properties;
        let id = |wanted: &Option<ByteString>, found: &Option<MessageId>| {
            wanted.as_ref().is_none_or(|wanted| {
                found
                    .as_ref()
                    .and_then(sql::id_text)
                    .is_some_and(|found| found == *wanted)
            })
        };
        let text = |wanted: &Option<ByteString>, found: Option<&str>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| found == Some(wanted.as_ref()))
        };
        id(&self.correlation_id, &properties.correlation_id)
            && id(&self.message_id, &properties.message_id)
            && text(&self.to, properties.to.as_deref())
            && text(&self.reply_to, properties.reply_to.as_deref())
            && text(&self.label, properties.subject.as_deref())
            && text(&self.session_id, properties.group_id.as_deref())
            && text(
                &self.reply_to_session_id,
                properties.reply_to_group_id.as_deref(),
            )
            && text(
                &self.content_type,
                properties
                    .content_type
                    .as_ref()
                    .map(|symbol| symbol.as_str()),
            )
            && self.properties.iter().all(|(key, wanted)| {
                key.as_text()
                    .and_then(|key| record.user(key))
                    .is_some_and(|found| equal(wanted, found))
            })
    }
}

/// Numbers are equal by value whatever their type; everything else by type and value.
fn equal(a: &Value, b: &Value) -> bool {
    match (sql::Scalar::from_value(a), sql::Scalar::from_value(b)) {
        (Some(a), Some(b)) => a.equals(&b),
        _ => a == b,
    }
}

impl Broker {
    pub(super) fn add_rule(&mut self, command: AddRule) -> Result<(), Error> {
        self.fail_if_asked(command.subscription, Operation::Manage)?;
        self.touch(command.subscription);
        let Kind::Subscription { topic, rules, .. } = &self.entity(command.subscription)?.kind
        else {
            return Err(Error::not_allowed("Only subscriptions have rules."));
        };
        self.check_rule(*topic, rules, &command.rule)?;
        let created_at = self.now;
        if let Some(Entity {
            kind: Kind::Subscription { rules, .. },
            ..
        }) = self.entities.get_mut(command.subscription)
        {
            rules.push(Rule {
                created_at,
                ..command.rule
            });
        }
        Ok(())
    }

    /// Whether a rule can join these, in a subscription of this topic.
    pub(super) fn check_rule(
        &self,
        topic: EntityId,
        rules: &[Rule],
        rule: &Rule,
    ) -> Result<(), Error> {
        check_name_length(&rule.name, MAX_NAME)?;
        if rules
            .iter()
            .any(|other| other.name.eq_ignore_ascii_case(&rule.name))
        {
            return Err(already_exists(&rule.name));
        }
        if let Filter::Correlation(filter) = &rule.filter
            && filter.is_empty()
        {
            return Err(Error::invalid(
                "A correlation filter must have at least one condition.",
            ));
        }
        let (what, limit, same): (_, _, fn(&Filter) -> bool) = match rule.filter {
            Filter::Correlation(_) => (
                "correlation filters in the topic",
                self.limits.correlation_filters_per_topic,
                |filter| matches!(filter, Filter::Correlation(_)),
            ),
            Filter::Sql(_) => (
                "SQL filters in the topic",
                self.limits.sql_filters_per_topic,
                |filter| matches!(filter, Filter::Sql(_)),
            ),
            Filter::True | Filter::False => return Ok(()),
        };
        if limit.is_none() {
            return Ok(());
        }
        let Kind::Topic { subscriptions } = &self.entity(topic)?.kind else {
            return Ok(());
        };
        let elsewhere = subscriptions
            .iter()
            .filter_map(|id| match &self.entities.get(*id)?.kind {
                Kind::Subscription { rules, .. } => Some(rules),
                _ => None,
            })
            .flatten();
        let count = elsewhere.filter(|rule| same(&rule.filter)).count();
        check_limit(what, count, limit)
    }

    pub(super) fn remove_rule(&mut self, command: RemoveRule) -> Result<(), Error> {
        self.fail_if_asked(command.subscription, Operation::Manage)?;
        self.touch(command.subscription);
        self.entity(command.subscription)?;
        let Some(Entity {
            kind: Kind::Subscription { rules, .. },
            ..
        }) = self.entities.get_mut(command.subscription)
        else {
            return Err(Error::not_allowed("Only subscriptions have rules."));
        };
        let before = rules.len();
        rules.retain(|rule| !rule.name.eq_ignore_ascii_case(&command.name));
        if rules.len() == before {
            return Err(Error::new(
                ErrorKind::RuleNotFound,
                format!(
                    "The messaging entity '{}' could not be found.",
                    command.name
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn enumerate_rules(&mut self, command: EnumerateRules) -> Result<Vec<Rule>, Error> {
        self.fail_if_asked(command.subscription, Operation::Manage)?;
        let Kind::Subscription { rules, .. } = &self.entity(command.subscription)?.kind else {
            return Err(Error::not_allowed("Only subscriptions have rules."));
        };
        Ok(rules
            .iter()
            .skip(command.skip)
            .take(command.top)
            .cloned()
            .collect())
    }
}
