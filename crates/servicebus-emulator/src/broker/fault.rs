//! Faults that tests ask for.

use super::{
    Broker, EntityId, Error,
    command::{DetachLinks, FailNext, Operation},
};

/// Operations that are to fail.
#[derive(Debug)]
pub(super) struct Fault {
    entity: EntityId,
    operation: Operation,
    times: u32,
    error: Error,
}

impl Broker {
    pub(super) fn fail_next(&mut self, command: FailNext) -> Result<(), Error> {
        self.entity(command.entity)?;
        self.faults
            .retain(|fault| (fault.entity, fault.operation) != (command.entity, command.operation));
        if command.times > 0 {
            self.faults.push(Fault {
                entity: command.entity,
                operation: command.operation,
                times: command.times,
                error: command.error,
            });
        }
        Ok(())
    }

    /// Fails if a fault says so.
    pub(super) fn fail_if_asked(
        &mut self,
        entity: EntityId,
        operation: Operation,
    ) -> Result<(), Error> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let Some(index) = self
            .faults
            .iter()
            .position(|fault| fault.entity == entity && fault.operation == operation)
        else {
            return Ok(());
        };
        let Some(fault) = self.faults.get_mut(index) else {
            return Ok(());
        };
        let error = fault.error.clone();
        fault.times -= 1;
        if fault.times == 0 {
            self.faults.remove(index);
        }
        Err(error)
    }

    pub(super) fn detach_links(&mut self, command: DetachLinks) -> Result<(), Error> {
        self.entity(command.entity)?;
        self.detach_all(command.entity, &command.error);
        Ok(())
    }
}
