use std::sync::Arc;
use std::time::Duration;

use servicebus_amqp::types::{AmqpError, SaslCode};

use super::{Mailbox, Parcel};
use crate::broker::EntityId;
use crate::fault::Answered;

/// What is done to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interference {
    /// It is not given; the operation takes effect all the same, or does not.
    Lose { applied: bool },
    /// It is given later.
    Delay(Duration),
    /// It is given after the answers that follow, the last of which comes first.
    Reverse,
}

/// The faults on connections and answers that are ordered and have not happened.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    answers: Vec<AnswerFault>,
    refused_open: Option<(AmqpError, u32)>,
    refused_sasl: Option<(SaslCode, u32)>,
}

#[derive(Debug)]
struct AnswerFault {
    entity: EntityId,
    answered: Answered,
    interference: Interference,
    times: u32,
    /// Answers that wait to be given in reverse order.
    held: Vec<(Arc<Mailbox>, Parcel)>,
}

impl Faults {
    /// Orders a fault in place of the one that is ordered for the same answers. What that one held back is given now.
    pub(crate) fn order(
        &mut self,
        entity: EntityId,
        answered: Answered,
        interference: Interference,
        times: u32,
    ) {
        if let Some(index) = self.position(entity, answered) {
            self.answers.swap_remove(index).give_held();
        }
        if times > 0 {
            self.answers.push(AnswerFault {
                entity,
                answered,
                interference,
                times,
                held: Vec::new(),
            });
        }
    }

    /// What is to happen to the next answer.
    pub(crate) fn take(&mut self, entity: EntityId, answered: Answered) -> Option<Interference> {
        if self.answers.is_empty() {
            return None;
        }
        let index = self.position(entity, answered)?;
        let fault = self.answers.get_mut(index)?;
        let interference = fault.interference;
        // Answers in reverse order are counted once they are there.
        if interference != Interference::Reverse {
            fault.times -= 1;
            if fault.times == 0 {
                self.answers.swap_remove(index);
            }
        }
        Some(interference)
    }

    /// Holds an answer back until all are there.
    pub(super) fn hold(
        &mut self,
        entity: EntityId,
        answered: Answered,
        mailbox: &Arc<Mailbox>,
        answer: Parcel,
    ) {
        let Some(index) = self.position(entity, answered) else {
            return mailbox.push(answer, None);
        };
        if let Some(fault) = self.answers.get_mut(index) {
            fault.held.push((Arc::clone(mailbox), answer));
            if fault.held.len() >= fault.times as usize {
                self.answers.swap_remove(index).give_held();
            }
        }
    }

    fn position(&self, entity: EntityId, answered: Answered) -> Option<usize> {
        self.answers
            .iter()
            .position(|fault| (fault.entity, fault.answered) == (entity, answered))
    }

    pub(crate) fn refuse_open(&mut self, error: AmqpError, times: u32) {
        self.refused_open = (times > 0).then_some((error, times));
    }

    /// How the connection that has opened now is refused, if it is.
    pub(crate) fn take_refused_open(&mut self) -> Option<AmqpError> {
        take_one(&mut self.refused_open)
    }

    pub(crate) fn refuse_sasl(&mut self, code: SaslCode, times: u32) {
        self.refused_sasl = (times > 0).then_some((code, times));
    }

    /// How the client that authenticates now is refused, if it is.
    pub(crate) fn take_refused_sasl(&mut self) -> Option<SaslCode> {
        take_one(&mut self.refused_sasl)
    }
}

/// Takes one of so many.
fn take_one<T: Clone>(left: &mut Option<(T, u32)>) -> Option<T> {
    let (what, times) = left.take()?;
    if times > 1 {
        *left = Some((what.clone(), times - 1));
    }
    Some(what)
}

impl AnswerFault {
    fn give_held(self) {
        for (mailbox, answer) in self.held.into_iter().rev() {
            mailbox.push(answer, None);
        }
    }
}
