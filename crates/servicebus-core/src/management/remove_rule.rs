use servicebus_amqp::types::Map;

use super::{Effect, Operation};
use crate::entity;
use crate::error::Result;
use crate::names::operation;
use crate::rpc::Answer;

/// Removes a rule from a subscription. `EntityNotFound` when there is none of its name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoveRule {
    name: String,
}

impl RemoveRule {
    /// Removes the rule of this name.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name that no rule can have.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        entity::check_name("rule", &name)?;
        Ok(Self { name })
    }
}

impl Operation for RemoveRule {
    const NAME: &'static str = operation::REMOVE_RULE;
    type Output = ();

    fn arguments(&self) -> Map {
        Map::new().with("rule-name", self.name.as_str())
    }

    fn read(&self, answer: Answer) -> Result<()> {
        answer.success()
    }

    fn effect(&self) -> Effect {
        Effect::Lasting
    }
}
