use servicebus_amqp::types::Map;

use super::{Effect, Operation, array};
use crate::error::Result;
use crate::names::operation;
use crate::rpc::Answer;

/// Takes scheduled messages back. `MessageNotFound` when one of them is active already or was cancelled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CancelScheduled {
    numbers: Vec<i64>,
}

impl CancelScheduled {
    /// The messages of these numbers, which [`Schedule`](super::Schedule) gave; at least one.
    pub fn new(numbers: impl IntoIterator<Item = i64>) -> Self {
        Self {
            numbers: numbers.into_iter().collect(),
        }
    }
}

impl Operation for CancelScheduled {
    const NAME: &'static str = operation::CANCEL_SCHEDULED_MESSAGE;
    type Output = ();

    fn arguments(&self) -> Map {
        Map::new().with("sequence-numbers", array(self.numbers.iter().copied()))
    }

    fn read(&self, answer: Answer) -> Result<()> {
        answer.success()
    }

    fn effect(&self) -> Effect {
        Effect::Lasting
    }
}
