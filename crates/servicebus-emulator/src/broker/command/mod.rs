//! What can be asked of the broker. Each command is data; [`Broker::apply`] carries it out.

#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "commands are written as literals; a new field is meant to be noticed by every writer"
)]

mod entity;
mod fault;
mod link;
mod message;
mod session;
mod transaction;

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Timestamp};

pub use self::entity::{
    AddRule, CreateQueue, CreateSubscription, CreateTopic, DeleteEntity, DeleteNamespace,
    EnumerateRules, Purge, RemoveRule, UpdateQueue, UpdateSubscription, UpdateTopic,
};
pub use self::fault::{
    DeadLetter, DetachLinks, Duplicate, ExpireLock, ExpireSession, FailNext, Operation,
};
pub use self::link::{
    AttachReceiver, AttachSender, Attached, DetachReceiver, ReceiveMode, SenderTerms, SessionGrant,
    SessionRequest, SetCredit,
};
pub use self::message::{
    BatchDelete, CancelScheduled, Peek, ReceiveDeferred, RenewLocks, Schedule, Send, Settle,
    Settlement, UpdateDispositions,
};
pub use self::session::{ListSessions, ReadSessionState, RenewSessionLock, WriteSessionState};
pub use self::transaction::{BeginTransaction, EndTransaction, TransactionEnd};
use super::{Broker, Delivery, EntityId, Error, StoredMessage, TransactionId, rule::Rule};

/// A command and what it answers.
pub trait Command {
    /// The answer.
    type Reply;

    /// Carries the command out at the broker's present time.
    #[doc(hidden)]
    fn apply(self, broker: &mut Broker) -> Result<Self::Reply, Error>;
}

macro_rules! commands {
    ($($command:ident => $method:ident -> $reply:ty;)*) => {
        $(impl Command for $command {
            type Reply = $reply;

            fn apply(self, broker: &mut Broker) -> Result<$reply, Error> {
                broker.$method(self)
            }
        })*
    };
}

commands! {
    CreateQueue => create_queue -> EntityId;
    CreateTopic => create_topic -> EntityId;
    CreateSubscription => create_subscription -> EntityId;
    UpdateQueue => update_queue -> ();
    UpdateTopic => update_topic -> ();
    UpdateSubscription => update_subscription -> ();
    DeleteEntity => delete_entity -> ();
    DeleteNamespace => delete_namespace -> ();
    Purge => purge -> u64;
    AddRule => add_rule -> ();
    RemoveRule => remove_rule -> ();
    EnumerateRules => enumerate_rules -> Vec<Rule>;
    AttachSender => attach_sender -> SenderTerms;
    AttachReceiver => attach_receiver -> Attached;
    DetachReceiver => detach_receiver -> ();
    SetCredit => set_credit -> ();
    Send => send -> ();
    Settle => settle -> ();
    UpdateDispositions => update_dispositions -> ();
    RenewLocks => renew_locks -> Vec<Timestamp>;
    ReceiveDeferred => receive_deferred -> Vec<Delivery>;
    Schedule => schedule -> Vec<i64>;
    CancelScheduled => cancel_scheduled -> ();
    Peek => peek -> Vec<StoredMessage>;
    BatchDelete => batch_delete -> u32;
    RenewSessionLock => renew_session_lock -> Timestamp;
    ReadSessionState => read_session_state -> Option<Bytes>;
    WriteSessionState => write_session_state -> ();
    ListSessions => list_sessions -> Vec<ByteString>;
    BeginTransaction => begin_transaction -> TransactionId;
    EndTransaction => end_transaction -> ();
    ExpireLock => expire_lock -> ();
    ExpireSession => expire_session -> ();
    Duplicate => duplicate -> i64;
    DeadLetter => dead_letter_now -> ();
    FailNext => fail_next -> ();
    DetachLinks => detach_links -> ();
}
