//! Transactions: sends and settlements that take effect together.

use super::{
    Broker, EntityId, Error, ErrorKind, EventKind, LockToken, Settlement, TransactionEnd,
    TransactionId,
    command::{BeginTransaction, EndTransaction},
    entity::Kind,
    id::slot_of,
    log::NONE,
    message::Content,
    send::Origin,
    time::after,
    timer::Timer,
};
use servicebus_amqp::types::Timestamp;

/// A transaction that is open.
#[derive(Debug)]
pub(super) struct Transaction {
    id: TransactionId,
    /// When it is rolled back.
    until: Timestamp,
    steps: Vec<Step>,
    messages: usize,
    /// The queue or topic of the first operation: the only one whose messages may be settled.
    first: Option<EntityId>,
    /// An operation failed: the transaction can only be rolled back.
    failed: bool,
}

/// Something that takes effect at commit.
#[derive(Debug)]
pub(super) enum Step {
    Send {
        entity: EntityId,
        contents: Vec<Content>,
    },
    Schedule {
        entity: EntityId,
        messages: Vec<(i64, Content)>,
    },
    Settle {
        entity: EntityId,
        token: LockToken,
        settlement: Settlement,
    },
}

impl Broker {
    pub(super) fn begin_transaction(
        &mut self,
        _: BeginTransaction,
    ) -> Result<TransactionId, Error> {
        let until = after(self.now, self.limits.transaction_time);
        let vacant = self.transactions.vacant_entry();
        let slot = u32::try_from(vacant.key()).unwrap_or(NONE);
        let id = TransactionId(self.ids.uuid_for(slot));
        vacant.insert(Transaction {
            id,
            until,
            steps: Vec::new(),
            messages: 0,
            first: None,
            failed: false,
        });
        self.timers.set(until, Timer::Transaction(slot));
        Ok(id)
    }

    fn find_transaction(&mut self, id: TransactionId) -> Result<&mut Transaction, Error> {
        self.transactions
            .get_mut(slot_of(id.0))
            .filter(|transaction| transaction.id == id)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::TransactionUnknown,
                    "The transaction is not known: it was never declared, has ended, or took too long.",
                )
            })
    }

    /// Adds a step to a transaction.
    pub(super) fn enlist(
        &mut self,
        transaction: TransactionId,
        entity: EntityId,
        messages: usize,
        step: Step,
    ) -> Result<(), Error> {
        let top = self.top_level(entity);
        let limit = self.limits.transaction_messages;
        let transaction = self.find_transaction(transaction)?;
        let first = *transaction.first.get_or_insert(top);
        let refusal = if matches!(step, Step::Settle { .. }) && first != top {
            Some(Error::not_allowed(
                "Local transactions cannot span multiple top-level entities such as queue or topic.",
            ))
        } else if transaction.messages + messages > limit {
            Some(Error::new(
                ErrorKind::QuotaExceeded,
                format!("Can't send more than {limit} messages in a single transaction."),
            ))
        } else if transaction.steps.len() >= limit * 100 {
            Some(Error::new(
                ErrorKind::QuotaExceeded,
                "There are too many operations in the transaction.",
            ))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            transaction.failed = true;
            return Err(refusal);
        }
        transaction.messages += messages;
        transaction.steps.push(step);
        Ok(())
    }

    /// Keeps a lock until its transaction ends.
    pub(super) fn bind_lock(&mut self, lock: u32, transaction: TransactionId) {
        if let Some(lock) = self.locks.get_mut(lock as usize) {
            lock.transaction = u32::try_from(slot_of(transaction.0)).unwrap_or(NONE);
        }
    }

    /// Lets a lock end by itself again.
    fn free_lock(&mut self, lock: u32) {
        if let Some(lock) = self.locks.get_mut(lock as usize) {
            lock.transaction = NONE;
        }
    }

    /// Notes that an operation of a transaction was refused; the transaction can no longer be committed.
    pub(super) fn poison(&mut self, transaction: Option<TransactionId>) {
        if let Some(transaction) = transaction
            && let Ok(transaction) = self.find_transaction(transaction)
        {
            transaction.failed = true;
        }
    }

    /// The queue or topic that an entity belongs to.
    fn top_level(&self, id: EntityId) -> EntityId {
        match self.entities.get(id).map(|entity| &entity.kind) {
            Some(Kind::Subscription { topic, .. }) => *topic,
            Some(Kind::DeadLetter { of }) => self.top_level(*of),
            _ => id,
        }
    }

    pub(super) fn end_transaction(&mut self, command: EndTransaction) -> Result<(), Error> {
        self.find_transaction(command.transaction)?;
        let slot = slot_of(command.transaction.0);
        let Some(transaction) = self.transactions.try_remove(slot) else {
            return Ok(());
        };
        let timer = Timer::Transaction(u32::try_from(slot).unwrap_or(NONE));
        self.timers.cancel(transaction.until, timer);
        if command.end == TransactionEnd::Rollback {
            self.roll_back(transaction);
            return Ok(());
        }
        if let Err(error) = self.check_commit(&transaction) {
            self.roll_back(transaction);
            return Err(Error::new(
                ErrorKind::TransactionRolledBack,
                format!("The transaction was rolled back. {}", error.text()),
            ));
        }
        self.commit(transaction);
        Ok(())
    }

    /// Whether every step can still take effect.
    fn check_commit(&self, transaction: &Transaction) -> Result<(), Error> {
        if transaction.failed {
            return Err(Error::new(
                ErrorKind::TransactionRolledBack,
                "An operation in it failed.",
            ));
        }
        for step in &transaction.steps {
            match step {
                Step::Send { entity, contents } => {
                    self.check(*entity, contents)?;
                }
                Step::Schedule { entity, messages } => {
                    self.check(*entity, messages.iter().map(|(_, content)| content))?;
                }
                Step::Settle { entity, token, .. } => {
                    self.find_lock(*entity, *token)
                        .ok_or_else(Error::message_lock_lost)?;
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self, transaction: Transaction) {
        if let Some(first) = transaction.first {
            self.record(first, || EventKind::Committed);
        }
        for step in transaction.steps {
            match step {
                Step::Send { entity, contents } => {
                    for content in contents {
                        self.admit(entity, content, Origin::default());
                    }
                }
                Step::Schedule { entity, messages } => self.store_scheduled(entity, messages),
                Step::Settle {
                    entity,
                    token,
                    settlement,
                } => {
                    if let Some(lock) = self.find_lock(entity, token) {
                        self.free_lock(lock);
                        // Cannot fail: the lock is there, and what it writes was tried when it was enlisted.
                        let _ = self.settle_now(entity, lock, settlement);
                    }
                }
            }
        }
    }

    fn roll_back(&mut self, transaction: Transaction) {
        if let Some(first) = transaction.first {
            self.record(first, || EventKind::RolledBack);
        }
        for step in transaction.steps {
            let Step::Settle { entity, token, .. } = step else {
                continue;
            };
            let Some(slot) = self.find_lock(entity, token) else {
                continue;
            };
            self.free_lock(slot);
            if self
                .locks
                .get(slot as usize)
                .is_some_and(|lock| lock.until <= self.now)
            {
                self.on_lock_timeout(slot);
            }
        }
    }

    /// A transaction took too long.
    pub(super) fn on_transaction_timeout(&mut self, slot: u32) {
        if let Some(transaction) = self.transactions.try_remove(slot as usize) {
            self.roll_back(transaction);
        }
    }
}
