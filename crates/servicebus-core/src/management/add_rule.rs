use servicebus_amqp::types::Map;

use super::{Effect, Operation};
use crate::error::Result;
use crate::names::operation;
use crate::rpc::Answer;
use crate::rules::{Rule, description};

/// Adds a rule to a subscription. `EntityAlreadyExists` when there is one of its name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AddRule {
    rule: Rule,
}

impl AddRule {
    /// Adds this rule.
    ///
    /// # Errors
    ///
    /// As [`Rule::check`].
    pub fn new(rule: Rule) -> Result<Self> {
        rule.check()?;
        Ok(Self { rule })
    }
}

impl Operation for AddRule {
    const NAME: &'static str = operation::ADD_RULE;
    type Output = ();

    fn arguments(&self) -> Map {
        Map::new()
            .with("rule-name", self.rule.name.as_str())
            .with("rule-description", description(&self.rule))
    }

    fn read(&self, answer: Answer) -> Result<()> {
        answer.success()
    }

    fn effect(&self) -> Effect {
        Effect::Lasting
    }
}
