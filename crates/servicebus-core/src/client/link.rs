use std::sync::{Arc, OnceLock};

use bytestring::ByteString;
use servicebus_amqp::engine::{CreditMode, DeliveryKey, LinkError, LinkOptions};
use servicebus_amqp::net::ReceiverLink;
use servicebus_amqp::types::{
    DeliveryState, Map, Outcome, ReceiverSettleMode, SenderSettleMode, Source, Symbol, Target,
    Value,
};
use tokio_util::sync::CancellationToken;

use super::cell::Mortal;
use super::grant::Grant;
use super::live::Seat;
use super::node::Node;
use crate::error::{Error, ErrorKind, Result};
use crate::management::ReceiveMode;
use crate::names;

/// An attached link that receives, and what it stands on. Messages that came on it keep it.
#[derive(Debug)]
pub(crate) struct ReceivingLink {
    pub(crate) link: ReceiverLink,
    pub(crate) name: ByteString,
    pub(crate) generation: u64,
    session_lock: OnceLock<SessionLock>,
    _grant: Arc<Grant>,
    _seat: Seat,
}

/// Tells of the end of the lock on the session that a link holds.
#[derive(Debug, Default)]
struct SessionLock {
    lost: CancellationToken,
    /// Whether a task watches the link for it.
    watched: OnceLock<()>,
}

/// What to ask for with the attach of a receiving link.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) mode: ReceiveMode,
    pub(crate) identifier: Option<ByteString>,
    /// The filter of the source.
    pub(crate) filter: Option<Map>,
    /// Properties of the link.
    pub(crate) properties: Map,
    /// How long the service may take for its answer.
    pub(crate) limit: std::time::Duration,
}

/// Where a link is attached.
#[derive(Debug)]
pub(crate) struct Place {
    generation: u64,
    grant: Arc<Grant>,
    seat: Seat,
}

impl Place {
    /// A place in the connection of the entity, with its authorisation.
    pub(crate) async fn for_link_to(node: &Arc<Node>) -> Result<Self> {
        let (live, grant) = node.authorised().await?;
        Ok(Self {
            generation: live.generation,
            seat: live.seat(node.try_timeout()).await?,
            grant,
        })
    }
}

impl ReceivingLink {
    pub(crate) async fn attach(node: &Arc<Node>, place: Place, asked: Asked) -> Result<Self> {
        let address = node.address.to_byte_string();
        let name: ByteString = format!("{address}-{}", uuid::Uuid::new_v4()).into();
        let source = Source {
            address: Some(address),
            filter: asked.filter,
            ..Source::default()
        };
        let identifier = asked.identifier.unwrap_or_else(|| name.clone());
        let target = Target {
            address: Some(identifier.clone()),
            ..Target::default()
        };
        let mut options = LinkOptions::new(source, target);
        (options.snd_settle_mode, options.rcv_settle_mode) = match asked.mode {
            ReceiveMode::PeekLock => (SenderSettleMode::Unsettled, ReceiverSettleMode::Second),
            ReceiveMode::ReceiveAndDelete => (SenderSettleMode::Settled, ReceiverSettleMode::First),
        };
        options.credit = CreditMode::Exact(0);
        let mut properties = asked.properties;
        properties.insert(
            Symbol::from_static(names::link::RECEIVER_NAME),
            Value::from(identifier),
        );
        options.properties = Some(properties);
        let session = place.seat.session();
        let link = session
            .attach_receiver(name.clone(), options, asked.limit)
            .await?;
        tracing::debug!(entity = %node.address, "receiver attached");
        Ok(Self {
            link,
            name,
            generation: place.generation,
            session_lock: OnceLock::new(),
            _grant: place.grant,
            _seat: place.seat,
        })
    }

    /// The token that is to be cancelled when the lock on the session is found to be over.
    pub(crate) fn session_token(&self) -> CancellationToken {
        let lock = self.session_lock.get_or_init(SessionLock::default);
        lock.lost.clone()
    }

    /// A token that is cancelled when the session is lost, or given up.
    pub(crate) fn session_lock_lost(&self) -> CancellationToken {
        let lock = self.session_lock.get_or_init(SessionLock::default);
        lock.watched.get_or_init(|| {
            let (ended, token) = (self.link.ended(), lock.lost.clone());
            // Elsewhere the next renewal notices.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    tokio::select! {
                        _ = ended => token.cancel(),
                        () = token.cancelled() => {}
                    }
                });
            }
        });
        lock.lost.clone()
    }

    /// Gives a delivery back to the broker, which does not count it as failed.
    pub(crate) fn release(&self, delivery: DeliveryKey) {
        // It is settled already, or the link is gone, if it fails.
        let _ = self
            .link
            .settle(delivery, DeliveryState::Outcome(Outcome::Released));
    }

    /// Lets both ends forget a delivery whose lock is over. To the broker this says nothing new; should its clock be a
    /// little behind ours, it does what the end of the lock would do.
    pub(crate) fn forget(&self, delivery: DeliveryKey) {
        self.refuse(delivery);
    }

    /// Gives a delivery back as a failed one.
    pub(crate) fn refuse(&self, delivery: DeliveryKey) {
        let outcome = Outcome::Modified(Box::default());
        let _ = self.link.settle(delivery, DeliveryState::Outcome(outcome));
    }

    /// Takes a message that the broker did not settle although it was to delete it.
    pub(crate) fn accept(&self, delivery: DeliveryKey) {
        let _ = self.link.settle(delivery, DeliveryState::ACCEPTED);
    }

    /// Whether the link ended because the broker took away the session it held.
    pub(crate) fn session_taken_away(&self) -> bool {
        let cause = self.link.error().cloned().map(Error::from);
        cause.is_some_and(|error| error.kind() == ErrorKind::SessionLockLost)
    }

    /// Why the link ended, as the loss of the session it held.
    pub(crate) fn session_lost(&self) -> Error {
        let cause = self.link.error().cloned();
        session_lost(cause)
    }
}

/// The loss of a session with its link: final, whatever the cause. Only closing it oneself is no loss.
fn session_lost(cause: Option<LinkError>) -> Error {
    let cause = cause.map(Error::from);
    match cause {
        Some(error) if error.kind() == ErrorKind::Closed => error,
        Some(error) if error.kind() == ErrorKind::SessionLockLost => error,
        Some(error) => Error::new(
            ErrorKind::SessionLockLost,
            format!("the session is lost with its link: {error}"),
        )
        .with_source(error),
        None => Error::new(ErrorKind::SessionLockLost, "the session is lost"),
    }
}

impl Mortal for ReceivingLink {
    fn is_alive(&self) -> bool {
        self.link.error().is_none()
    }
}
