use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytestring::ByteString;
use servicebus_amqp::engine::{LinkOptions, OutgoingDelivery};
use servicebus_amqp::net::{DeliveryError, Outcome, SenderLink};
use servicebus_amqp::types::{DeliveryState, Source, Target};

use super::cell::Mortal;
use super::clock::sleep_until;
use super::failure::{Failure, answer, timeout};
use super::grant::Grant;
use super::live::Seat;
use super::node::Node;
use crate::batch::batch_limit;
use crate::error::Result;
use crate::message::Encoded;
use crate::settlement::read_send_answer;

/// An attached link that sends, and what it stands on.
#[derive(Debug)]
pub(crate) struct SendingLink {
    pub(crate) link: SenderLink,
    pub(crate) generation: u64,
    pub(crate) batch_limit: usize,
    _grant: Arc<Grant>,
    _seat: Seat,
}

impl SendingLink {
    pub(crate) async fn attach(node: &Node, identifier: Option<&ByteString>) -> Result<Self> {
        let (live, grant) = node.authorised().await?;
        let limit = node.try_timeout();
        let seat = live.seat(limit).await?;
        let address = node.address.to_byte_string();
        let name: ByteString = format!("{address}-{}", uuid::Uuid::new_v4()).into();
        let source = Source {
            address: Some(identifier.cloned().unwrap_or_else(|| name.clone())),
            ..Source::default()
        };
        let target = Target {
            address: Some(address),
            ..Target::default()
        };
        let options = LinkOptions::new(source, target);
        let link = seat.session().attach_sender(name, options, limit).await?;
        let peer = link.peer_attach();
        let batch_limit = batch_limit(
            peer.and_then(|attach| attach.max_message_size),
            peer.and_then(|attach| attach.properties.as_ref()),
        );
        tracing::debug!(entity = %node.address, batch_limit, "sender attached");
        Ok(Self {
            link,
            generation: live.generation,
            batch_limit,
            _grant: grant,
            _seat: seat,
        })
    }

    /// Puts a delivery in the queue of the link.
    pub(crate) fn queue(
        &self,
        payload: Encoded,
        message_format: u32,
        state: Option<DeliveryState>,
    ) -> Queued {
        let mut delivery = OutgoingDelivery::new(payload.head);
        delivery.tail = payload.body;
        delivery.message_format = message_format;
        delivery.state = state;
        match self.link.try_queue(delivery) {
            Ok(outcome) => Queued::Now(outcome),
            Err(delivery) => {
                let link = self.link.clone();
                Queued::Later(Box::pin(async move { link.queue(delivery).await }))
            }
        }
    }
}

impl Mortal for SendingLink {
    fn is_alive(&self) -> bool {
        self.link.error().is_none()
    }
}

/// A delivery on its way. Small, because many of them are on their way at a time.
pub(crate) enum Queued {
    Now(Result<Outcome, DeliveryError>),
    /// So many have no outcome yet that this one waits.
    Later(Pin<Box<dyn Future<Output = Result<Outcome, DeliveryError>> + Send>>),
}

impl Queued {
    /// Waits for the broker to take it, until the deadline at the latest.
    pub(crate) async fn taken(self, deadline: Option<Instant>) -> Result<(), Failure> {
        let outcome = match self {
            Self::Now(outcome) => outcome?,
            Self::Later(queued) => tokio::select! {
                biased;
                queued = queued => queued?,
                () = sleep_until(deadline) => return Err(Failure::known(timeout())),
            },
        };
        let state = answer(outcome, deadline).await?;
        Ok(read_send_answer(state.as_ref())?)
    }
}
