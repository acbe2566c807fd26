//! Requests and replies of the nodes `$cbs` and `$management`.

use bytes::BytesMut;
use servicebus_amqp::engine::{
    Connection, IncomingDelivery, LinkKey, OutgoingDelivery, SessionKey,
};
use servicebus_amqp::types::{
    Body, ByteString, Bytes, DeliveryState, LazyMap, Map, Message, MessageId, Outcome, Properties,
    Symbol, Value, condition,
};

use super::client::Client;
use super::link::Node;
use super::locks::NO_LOCK;
use super::names::rpc;
use super::transfer::{malformed, rejected, settle};
use crate::broker::{Error, TransactionId, amqp_error};
use crate::fault::Answered;
use crate::hub::{Interference, Parcel};

/// How many replies wait for a client that gives no credit before its requests are refused.
const MAX_WAITING: usize = 1000;

/// A request, as far as both nodes have the same.
pub(super) struct Request {
    pub(super) operation: ByteString,
    pub(super) properties: Map,
    pub(super) body: Value,
    pub(super) transaction: Option<TransactionId>,
    /// The most bytes that the reply may have.
    pub(super) room: u64,
}

/// What a node answers.
pub(super) struct Reply {
    pub(super) status: i32,
    pub(super) description: String,
    pub(super) condition: Option<Symbol>,
    pub(super) body: Value,
}

impl Reply {
    pub(super) fn ok(body: Map) -> Self {
        Self {
            status: 200,
            description: "OK".into(),
            condition: None,
            body: Value::Map(body),
        }
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self {
            status: error.status(),
            description: error.text().to_owned(),
            condition: Some(error.condition()),
            body: Value::Null,
        }
    }
}

impl Client {
    /// A request of the client: accepted once its reply is on the way, or rejected when it cannot have one.
    pub(super) fn on_request(
        &mut self,
        connection: &mut Connection,
        node: Node,
        delivery: IncomingDelivery,
    ) {
        let (key, settled) = (delivery.delivery, delivery.settled);
        let outcome = match self.reply_to_request(connection, node, delivery) {
            Ok(()) => Outcome::Accepted,
            Err(outcome) => outcome,
        };
        if !settled {
            settle(connection, key, DeliveryState::Outcome(outcome));
        }
    }

    fn reply_to_request(
        &mut self,
        connection: &mut Connection,
        node: Node,
        delivery: IncomingDelivery,
    ) -> Result<(), Outcome> {
        let session = connection
            .link(delivery.link)
            .map(|status| status.session)
            .map_err(|_| Outcome::Released)?;
        let message = Message::decode(delivery.payload)
            .map_err(|error| malformed(format!("The request is no AMQP message: {error}.")))?;
        let properties = message.properties.unwrap_or_default();
        let link = self
            .reply_link(session, node, properties.reply_to.as_deref())
            .ok_or_else(|| {
                rejected(amqp_error(
                    condition::NOT_FOUND,
                    "There is no link on this session for the reply: attach a receiver with the node as its source.",
                ))
            })?;
        let status = connection.link(link).map_err(|_| Outcome::Released)?;
        if status.queued >= MAX_WAITING {
            return Err(rejected(amqp_error(
                condition::RESOURCE_LIMIT_EXCEEDED,
                format!("{MAX_WAITING} replies wait for credit on the link for replies."),
            )));
        }
        let transaction = match &delivery.state {
            Some(DeliveryState::Transactional(state)) => Some(
                super::transfer::transaction(&state.txn_id)
                    .map_err(|error| rejected(error.to_amqp()))?,
            ),
            _ => None,
        };
        let decoded = message
            .application_properties
            .map(|properties| properties.decode())
            .transpose()
            .map_err(|error| malformed(format!("The request's properties: {error}.")))?
            .unwrap_or_default();
        let body = match message.body {
            Body::Value(value) => value,
            _ => Value::Null,
        };
        let request = Request {
            operation: decoded
                .get(rpc::OPERATION)
                .and_then(Value::as_text)
                .unwrap_or_default()
                .into(),
            properties: decoded,
            body,
            transaction,
            room: status.peer_max_message_size.unwrap_or(u64::MAX),
        };
        let id = properties.message_id;
        match node {
            Node::Cbs => {
                let reply = self.on_put_token(&request);
                send_reply(connection, link, encode(Spelling::Cbs, reply, &request, id))
            }
            Node::Management(entity) => {
                let of = (entity, Answered::Manage);
                let fault = self
                    .hub
                    .with(self.mailbox(), |core, _| core.faults.take(of.0, of.1));
                if fault == Some(Interference::Lose { applied: false }) {
                    return Ok(());
                }
                let reply = self.on_management(entity, &request);
                let payload = encode(Spelling::Management, reply, &request, id);
                let Some(fault) = fault else {
                    return send_reply(connection, link, payload);
                };
                self.hub.with(self.mailbox(), |core, now| {
                    let parcel = Parcel::Reply { link, payload };
                    core.interfere(now, fault, of, &self.mailbox, parcel);
                });
                Ok(())
            }
        }
    }

    /// The link for the replies to a request: on its session, with the reply-to as its target's address or as its name, or
    /// the only one from the node. Clients differ in which of these they mean.
    fn reply_link(
        &self,
        session: SessionKey,
        node: Node,
        reply_to: Option<&str>,
    ) -> Option<LinkKey> {
        let candidates = || self.links.replies(session, node);
        if let Some(reply_to) = reply_to {
            let by_address = candidates().find(|(_, address)| *address == Some(reply_to));
            let found =
                by_address.or_else(|| candidates().find(|(link, _)| link.name == *reply_to));
            if let Some((link, _)) = found {
                return Some(link.key);
            }
        }
        let mut all = candidates();
        match (all.next(), all.next()) {
            (Some((link, _)), None) => Some(link.key),
            _ => None,
        }
    }
}

pub(super) fn send_reply(
    connection: &mut Connection,
    link: LinkKey,
    payload: Bytes,
) -> Result<(), Outcome> {
    let mut reply = OutgoingDelivery::new(payload);
    reply.settled = true;
    connection
        .send(link, reply, NO_LOCK)
        .map(|_| ())
        .map_err(|error| {
            rejected(amqp_error(
                condition::RESOURCE_LIMIT_EXCEEDED,
                format!("The reply cannot be sent: {error}."),
            ))
        })
}

enum Spelling {
    Cbs,
    Management,
}

fn encode(spelling: Spelling, reply: Reply, request: &Request, id: Option<MessageId>) -> Bytes {
    let (status, description, condition) = match spelling {
        Spelling::Cbs => (
            rpc::CBS_STATUS_CODE,
            rpc::CBS_STATUS_DESCRIPTION,
            rpc::CBS_ERROR_CONDITION,
        ),
        Spelling::Management => (
            rpc::STATUS_CODE,
            rpc::STATUS_DESCRIPTION,
            rpc::ERROR_CONDITION,
        ),
    };
    let mut properties = Map::new()
        .with(status, reply.status)
        .with(description, reply.description);
    if let Some(symbol) = reply.condition {
        properties.insert(condition, symbol);
    }
    if let Some(id) = request.properties.get(rpc::TRACKING_ID) {
        properties.insert(rpc::TRACKING_ID, id.clone());
    }
    let message = Message {
        properties: Some(Properties {
            correlation_id: id,
            ..Properties::default()
        }),
        application_properties: Some(LazyMap::from(properties)),
        body: Body::Value(reply.body),
        ..Message::default()
    };
    let mut out = BytesMut::new();
    if let Err(error) = message.encode(&mut out) {
        // Only beyond 4 GiB; what a node answers is bounded far below.
        tracing::error!(%error, "a reply that cannot be encoded");
    }
    out.freeze()
}
