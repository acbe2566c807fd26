use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use bytestring::ByteString;
use servicebus_amqp::engine::{LinkOptions, OutgoingDelivery};
use servicebus_amqp::net::SenderLink;
use servicebus_amqp::types::{
    Coordinator as CoordinatorTarget, DeliveryState, Message, Source, Symbol, TargetArchetype,
};

use super::cell::Mortal;
use super::clock::sleep_until;
use super::failure::{Failure, timeout};
use super::live::Seat;
use crate::error::Result;
use crate::transaction::{
    Discharge, TransactionId, declare, discharge, read_declared, read_discharged,
};

/// The link to the coordinator of transactions of one connection, and its session.
#[derive(Debug)]
pub(crate) struct Coordinator {
    link: SenderLink,
    seat: Seat,
}

impl Coordinator {
    pub(crate) async fn attach(seat: Seat, limit: Duration) -> Result<Self> {
        let name: ByteString = format!("coordinator-{}", uuid::Uuid::new_v4()).into();
        let mut options = LinkOptions::default();
        options.source = Some(Box::new(Source {
            address: Some(name.clone()),
            ..Source::default()
        }));
        options.target = Some(TargetArchetype::Coordinator(CoordinatorTarget {
            capabilities: vec![
                Symbol::from_static("amqp:local-transactions"),
                Symbol::from_static("amqp:multi-txns-per-ssn"),
            ],
        }));
        let link = seat.session().attach_sender(name, options, limit).await?;
        Ok(Self { link, seat })
    }

    pub(crate) fn seat(self: &Arc<Self>) -> Seat {
        self.seat.another()
    }

    /// Begins a transaction.
    pub(crate) async fn declare(
        &self,
        deadline: Option<Instant>,
    ) -> Result<TransactionId, Failure> {
        let state = self.ask(&declare(), deadline).await?;
        Ok(read_declared(state.as_ref())?)
    }

    /// Ends a transaction.
    pub(crate) async fn discharge(
        &self,
        id: &TransactionId,
        how: Discharge,
        deadline: Option<Instant>,
    ) -> Result<(), Failure> {
        let state = self.ask(&discharge(id, how), deadline).await?;
        Ok(read_discharged(state.as_ref())?)
    }

    async fn ask(
        &self,
        message: &Message,
        deadline: Option<Instant>,
    ) -> Result<Option<DeliveryState>, Failure> {
        let mut payload = BytesMut::new();
        message
            .encode(&mut payload)
            .map_err(crate::message::too_large)?;
        let delivery = OutgoingDelivery::new(payload.freeze());
        let mut outcome = tokio::select! {
            biased;
            queued = self.link.queue(delivery) => queued?,
            () = sleep_until(deadline) => return Err(Failure::known(timeout())),
        };
        tokio::select! {
            biased;
            state = &mut outcome => Ok(state?),
            () = sleep_until(deadline) => Err(if outcome.cancel() {
                Failure::known(timeout())
            } else {
                Failure::unknown(timeout())
            }),
        }
    }
}

impl Mortal for Coordinator {
    fn is_alive(&self) -> bool {
        self.link.error().is_none()
    }
}
