//! Transactions.

use crate::broker::TransactionId;

/// Opens a transaction.
#[derive(Clone, Copy, Debug)]
pub struct BeginTransaction;

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// Everything in it takes effect.
    Commit,
    /// Nothing in it takes effect; messages stay locked.
    Rollback,
}

/// Ends a transaction.
#[derive(Clone, Copy, Debug)]
pub struct EndTransaction {
    /// The transaction.
    pub transaction: TransactionId,
    /// How it ends.
    pub end: TransactionEnd,
}
