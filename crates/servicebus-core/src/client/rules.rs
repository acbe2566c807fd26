use std::sync::Arc;

use tracing::Instrument as _;

use super::node::Node;
use crate::error::Result;
use crate::management::{AddRule, ListRules, Operation, RemoveRule};
use crate::rules::Rule;

/// The rules of a subscription: which of the topic's messages it takes, and what it changes about them.
///
/// It can be cloned. Every subscription is made with the rule `$Default`, which takes everything.
#[derive(Clone, Debug)]
pub struct Rules {
    node: Arc<Node>,
}

impl Rules {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// The path of the subscription.
    pub fn entity(&self) -> &str {
        self.node.address.as_str()
    }

    /// Adds a rule.
    ///
    /// # Errors
    ///
    /// [`EntityAlreadyExists`](crate::error::ErrorKind::EntityAlreadyExists) when there is one of its name;
    /// [`InvalidArgument`](crate::error::ErrorKind::InvalidArgument) as [`Rule::check`], or when the service cannot read
    /// its SQL.
    ///
    /// # Cancel safety
    ///
    /// The rule may be added when the future is dropped.
    pub async fn add(&self, rule: Rule) -> Result<()> {
        let request = AddRule::new(rule).map_err(|error| self.node.about(error))?;
        self.call(&request).await
    }

    /// Removes the rule of this name.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](crate::error::ErrorKind::EntityNotFound) when there is none.
    ///
    /// # Cancel safety
    ///
    /// The rule may be removed when the future is dropped.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let request = RemoveRule::new(name).map_err(|error| self.node.about(error))?;
        self.call(&request).await
    }

    /// All rules.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](crate::error::ErrorKind::EntityNotFound) when there is no such subscription.
    ///
    /// # Cancel safety
    ///
    /// Nothing happens when the future is dropped.
    pub async fn list(&self) -> Result<Vec<Rule>> {
        let mut rules = Vec::new();
        loop {
            let skip = u32::try_from(rules.len()).unwrap_or(u32::MAX);
            let page = self.call(&ListRules::new(skip)).await?;
            if page.is_empty() {
                return Ok(rules);
            }
            rules.extend(page);
        }
    }

    async fn call<O: Operation>(&self, request: &O) -> Result<O::Output> {
        let span = tracing::debug_span!("rules", entity = self.entity(), operation = O::NAME);
        self.node.call(request, None).instrument(span).await
    }
}
