//! Names of entities and the addresses they have on the wire.

use std::fmt;

use bytestring::ByteString;

use crate::error::{Error, ErrorKind, Result};
use crate::names;

/// The longest path of an entity.
const MAX_PATH: usize = 260;
/// The longest name of a subscription or a rule.
const MAX_SUBSCRIPTION: usize = 50;

/// A queue, a topic, or a subscription of a topic.
///
/// Text is the path of a queue or a topic; a subscription is a [`Subscription`].
///
/// ```
/// use servicebus_core::entity::{Entity, SubQueue, Subscription};
///
/// let queue = Entity::from("orders");
/// assert_eq!(queue.address().unwrap().as_str(), "orders");
///
/// let audit = Entity::from(Subscription::new("events", "audit"));
/// let dead = audit.sub_queue_address(SubQueue::DeadLetter).unwrap();
/// assert_eq!(dead.as_str(), "events/Subscriptions/audit/$DeadLetterQueue");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Entity(Name);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Name {
    Path(ByteString),
    Subscription(Subscription),
}

/// A subscription of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subscription {
    topic: ByteString,
    name: ByteString,
}

impl Subscription {
    /// The subscription `name` of `topic`.
    pub fn new(topic: impl Into<ByteString>, name: impl Into<ByteString>) -> Self {
        Self {
            topic: topic.into(),
            name: name.into(),
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The name of the subscription.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A queue that belongs to a queue or a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SubQueue {
    /// Messages that were dead-lettered.
    DeadLetter,
    /// Messages that could not be forwarded to another entity.
    TransferDeadLetter,
}

impl SubQueue {
    const fn suffix(self) -> &'static str {
        match self {
            Self::DeadLetter => "/$DeadLetterQueue",
            Self::TransferDeadLetter => "/$Transfer/$DeadLetterQueue",
        }
    }
}

impl Entity {
    /// The address of links to this entity.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when the name cannot be that of an entity: it is empty, too long (260 bytes; 50
    /// for a subscription), starts or ends with a slash, or has characters that no entity has.
    pub fn address(&self) -> Result<Address> {
        match &self.0 {
            Name::Path(path) => {
                check_path(path)?;
                Ok(Address(path.clone()))
            }
            Name::Subscription(Subscription { topic, name }) => {
                check_path(topic)?;
                check_name("subscription", name)?;
                Ok(Address(format!("{topic}/Subscriptions/{name}").into()))
            }
        }
    }

    /// The address of a queue that belongs to this entity.
    ///
    /// # Errors
    ///
    /// As [`address`](Self::address).
    pub fn sub_queue_address(&self, sub_queue: SubQueue) -> Result<Address> {
        let Address(path) = self.address()?;
        Ok(Address(format!("{path}{}", sub_queue.suffix()).into()))
    }

    /// The topic, when this is a subscription.
    pub fn topic(&self) -> Option<&str> {
        match &self.0 {
            Name::Subscription(subscription) => Some(subscription.topic()),
            Name::Path(_) => None,
        }
    }
}

impl From<&str> for Entity {
    fn from(path: &str) -> Self {
        Self(Name::Path(path.into()))
    }
}

impl From<String> for Entity {
    fn from(path: String) -> Self {
        Self(Name::Path(path.into()))
    }
}

impl From<&String> for Entity {
    fn from(path: &String) -> Self {
        Self::from(path.as_str())
    }
}

impl From<ByteString> for Entity {
    fn from(path: ByteString) -> Self {
        Self(Name::Path(path))
    }
}

impl From<Subscription> for Entity {
    fn from(subscription: Subscription) -> Self {
        Self(Name::Subscription(subscription))
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Path(path) => f.write_str(path),
            Name::Subscription(Subscription { topic, name }) => {
                write!(f, "{topic}/Subscriptions/{name}")
            }
        }
    }
}

impl fmt::Debug for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entity({self})")
    }
}

/// The checked address of a node: a source or a target.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(ByteString);

impl Address {
    /// An address that was not checked, of something that is not used.
    pub(crate) fn unchecked(text: String) -> Self {
        Self(text.into())
    }

    /// The address as it is put on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address as it is put on the wire, sharing its storage.
    pub fn to_byte_string(&self) -> ByteString {
        self.0.clone()
    }

    /// The queue or topic that this is, or belongs to.
    pub(crate) fn root(&self) -> &str {
        let path = self.as_str();
        let path = path.split("/$").next().unwrap_or(path);
        let mut parts = path.match_indices('/');
        let subscriptions = parts.find(|&(at, _)| {
            let rest = path.get(at + 1..).unwrap_or_default();
            let name = rest.split('/').next().unwrap_or(rest);
            name.eq_ignore_ascii_case("subscriptions") && name.len() < rest.len()
        });
        subscriptions
            .and_then(|(at, _)| path.get(..at))
            .unwrap_or(path)
    }

    /// The address of the management node of this entity.
    #[must_use]
    pub fn management(&self) -> Self {
        Self(format!("{}{}", self.0, names::MANAGEMENT_SUFFIX).into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.0)
    }
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(invalid("the name of the entity is empty".into()));
    }
    if path.len() > MAX_PATH {
        return Err(invalid(format!(
            "the name of the entity has {} bytes, {MAX_PATH} are allowed",
            path.len()
        )));
    }
    if path.split('/').any(str::is_empty) {
        return Err(invalid(format!(
            "the name of the entity '{path}' starts or ends with a slash or has two in a row"
        )));
    }
    check_characters("entity", path)
}

/// Checks the name of a subscription or a rule.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(invalid(format!("the name of the {what} is empty")));
    }
    if name.len() > MAX_SUBSCRIPTION {
        return Err(invalid(format!(
            "the name of the {what} has {} bytes, {MAX_SUBSCRIPTION} are allowed",
            name.len()
        )));
    }
    if name.contains('/') {
        return Err(invalid(format!(
            "the name of the {what} '{name}' has a slash"
        )));
    }
    check_characters(what, name)
}

fn check_characters(what: &str, name: &str) -> Result<()> {
    let refused = |c: char| c.is_control() || matches!(c, '?' | '#' | '@' | '*' | '\\');
    match name.chars().find(|&c| refused(c)) {
        Some(c) => Err(invalid(format!(
            "the name of the {what} has the character {c:?}"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_all_kinds() {
        let queue = Entity::from("a/b");
        assert_eq!(queue.address().unwrap().as_str(), "a/b");
        assert_eq!(
            queue.address().unwrap().management().as_str(),
            "a/b/$management"
        );
        assert_eq!(
            queue
                .sub_queue_address(SubQueue::TransferDeadLetter)
                .unwrap()
                .as_str(),
            "a/b/$Transfer/$DeadLetterQueue"
        );
        let subscription = Entity::from(Subscription::new("t1", "s1"));
        assert_eq!(
            subscription.address().unwrap().management().as_str(),
            "t1/Subscriptions/s1/$management"
        );
        assert_eq!(subscription.to_string(), "t1/Subscriptions/s1");
    }

    #[test]
    fn what_belongs_to_an_entity_has_its_root() {
        let rows = [
            ("q", "q"),
            ("a/b", "a/b"),
            ("q/$DeadLetterQueue", "q"),
            ("q/$Transfer/$DeadLetterQueue", "q"),
            ("a/t/Subscriptions/s", "a/t"),
            ("t/subscriptions/s/$DeadLetterQueue", "t"),
            ("subscriptions", "subscriptions"),
            ("a/subscriptions", "a/subscriptions"),
        ];
        for (address, root) in rows {
            assert_eq!(Entity::from(address).address().unwrap().root(), root);
        }
    }

    #[test]
    fn names_that_no_entity_has_are_refused_with_a_reason() {
        let long = "q".repeat(261);
        let rows: [(&str, &str); 8] = [
            ("", "empty"),
            ("/q", "slash"),
            ("q/", "slash"),
            ("a//b", "slash"),
            ("q?x", "'?'"),
            ("a#b", "'#'"),
            ("a\nb", "'\\n'"),
            (&long, "261 bytes"),
        ];
        for (name, reason) in rows {
            let error = Entity::from(name).address().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(reason), "{name:?}: {error}");
        }
        assert!(Entity::from("q".repeat(260)).address().is_ok());
        for name in ["", "a/b", &"s".repeat(51)] {
            assert!(
                Entity::from(Subscription::new("t", name))
                    .address()
                    .is_err()
            );
        }
    }
}
