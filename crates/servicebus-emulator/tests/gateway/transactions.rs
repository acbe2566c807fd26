//! Transactions: declared and discharged at the coordinator, with sends and settlements in them.

use crate::common::*;
use bytes::Bytes;
use servicebus_amqp::engine::{LinkOptions, OutgoingDelivery};
use servicebus_amqp::net::SenderLink;
use servicebus_amqp::types::{
    Array, Body, Coordinator, DeliveryState, Described, Descriptor, Map, Message, Outcome, Source,
    TransactionalState, Uuid, Value,
};
use servicebus_emulator::broker::QueueOptions;
use servicebus_emulator::{Emulator, Entity};

async fn queue() -> (Emulator, Client, Entity, SenderLink) {
    let emulator = emulator().await;
    let queue = emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let controller = controller(&client).await;
    (emulator, client, queue, controller)
}

async fn controller(client: &Client) -> SenderLink {
    let options = LinkOptions::new(
        Source::new("controller"),
        Coordinator {
            capabilities: Vec::new(),
        },
    );
    client
        .session
        .attach_sender(unique("controller"), options, SOON)
        .await
        .unwrap()
}

fn control(code: u64, fields: Vec<Value>) -> OutgoingDelivery {
    OutgoingDelivery::new(encode(&Message {
        body: Body::Value(Value::Described(Box::new(Described {
            descriptor: Descriptor::Code(code),
            value: Value::List(fields),
        }))),
        ..Message::default()
    }))
}

async fn declare(controller: &SenderLink) -> Bytes {
    let outcome = controller.send(control(0x31, vec![Value::Null])).await;
    match outcome.unwrap() {
        Some(DeliveryState::Outcome(Outcome::Declared { txn_id })) => txn_id,
        other => panic!("{other:?}"),
    }
}

async fn discharge(controller: &SenderLink, txn: &Bytes, fail: bool) -> Option<DeliveryState> {
    let fields = vec![Value::Binary(txn.clone()), Value::Bool(fail)];
    controller.send(control(0x32, fields)).await.unwrap()
}

fn within_transaction(txn: &Bytes, outcome: Option<Outcome>) -> DeliveryState {
    DeliveryState::Transactional(Box::new(TransactionalState {
        txn_id: txn.clone(),
        outcome,
    }))
}

async fn send_in(sender: &SenderLink, txn: &Bytes, text: &str) -> Option<DeliveryState> {
    let mut delivery = OutgoingDelivery::new(encode(&message(text)));
    delivery.state = Some(within_transaction(txn, None));
    sender.send(delivery).await.unwrap()
}

#[tokio::test]
async fn a_commit_makes_sends_and_settlements_visible_together() {
    let (_emulator, client, queue, controller) = queue().await;
    let sender = client.sender("q1").await;
    send(&sender, &message("old")).await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();

    let txn = declare(&controller).await;
    let accepted = within_transaction(&txn, Some(Outcome::Accepted));
    assert_eq!(send_in(&sender, &txn, "new").await, Some(accepted.clone()));
    let answer = settle(&receiver, &delivery, accepted.clone()).await;
    assert_eq!(answer, Some(accepted));
    assert_eq!(queue.counts().unwrap().active, 1, "the old one, locked");

    let outcome = discharge(&controller, &txn, false).await;
    assert_eq!(outcome, Some(DeliveryState::ACCEPTED));
    assert_eq!(queue.counts().unwrap().active, 1);
    receiver.add_credit(1).unwrap();
    assert_eq!(text(&within(receiver.recv()).await.unwrap()), "new");
}

#[tokio::test]
async fn a_rollback_keeps_the_lock_and_drops_the_sends() {
    let (emulator, client, queue, controller) = queue().await;
    let sender = client.sender("q1").await;
    send(&sender, &message("old")).await;
    let receiver = client.receiver("q1", 2).await;
    let delivery = within(receiver.recv()).await.unwrap();
    let txn = declare(&controller).await;
    send_in(&sender, &txn, "new").await;
    let accepted = within_transaction(&txn, Some(Outcome::Accepted));
    settle(&receiver, &delivery, accepted).await;
    let outcome = discharge(&controller, &txn, true).await;
    assert_eq!(outcome, Some(DeliveryState::ACCEPTED));

    let snapshot = queue.snapshot().unwrap();
    assert_eq!(snapshot.messages.len(), 1);
    assert!(snapshot.messages[0].lock.is_some());
    emulator.advance(secs(60)).await.unwrap();
    let again = within(receiver.recv()).await.unwrap();
    assert_eq!((text(&again).as_str(), delivery_count(&again)), ("old", 1));
}

#[tokio::test]
async fn a_controller_that_goes_away_rolls_back() {
    let (_emulator, client, queue, controller) = queue().await;
    let sender = client.sender("q1").await;
    let txn = declare(&controller).await;
    send_in(&sender, &txn, "new").await;
    controller.detach(Default::default(), None).await;
    let controller = super::transactions::controller(&client).await;
    let error = rejection(discharge(&controller, &txn, false).await);
    assert_eq!(error.condition, *"amqp:transaction:unknown-id");
    assert_eq!(queue.counts().unwrap().active, 0);
}

#[tokio::test]
async fn a_transaction_takes_two_minutes_at_most() {
    let (emulator, client, _, controller) = queue().await;
    let sender = client.sender("q1").await;
    let txn = declare(&controller).await;
    emulator.advance(secs(120)).await.unwrap();
    match send_in(&sender, &txn, "late").await {
        Some(DeliveryState::Transactional(state)) => match state.outcome {
            Some(Outcome::Rejected(Some(error))) => {
                assert_eq!(error.condition, *"amqp:transaction:unknown-id");
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_txn_id_that_is_none_is_refused() {
    let (_emulator, client, queue, controller) = queue().await;
    let error = rejection(discharge(&controller, &Bytes::from_static(b"x"), false).await);
    assert_eq!(error.condition, *"amqp:transaction:unknown-id");
    let sender = client.sender("q1").await;
    let txn = Bytes::from_static(&[9; 16]);
    assert!(matches!(
        send_in(&sender, &txn, "?").await,
        Some(DeliveryState::Transactional(state)) if matches!(state.outcome, Some(Outcome::Rejected(Some(_))))
    ));
    assert_eq!(queue.counts().unwrap().active, 0);
    let delivery = OutgoingDelivery::new(encode(&message("no declare")));
    let error = rejection(controller.send(delivery).await.unwrap());
    assert_eq!(error.condition, *"amqp:decode-error");
}

/// Settlements over management take part by the state of the request's transfer.
#[tokio::test]
async fn a_management_request_takes_part() {
    let (_emulator, client, queue, controller) = queue().await;
    let sender = client.sender("q1").await;
    send(&sender, &message("1")).await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    let node = client.node("q1/$management").await;
    let txn = declare(&controller).await;

    let tag: [u8; 16] = delivery.tag[..].try_into().unwrap();
    let tokens = Array::new(vec![Uuid::from_bytes_le(tag).into()]).unwrap();
    let request = Message {
        properties: Some(servicebus_amqp::types::Properties {
            reply_to: Some(node.reply_to.clone()),
            ..Default::default()
        }),
        application_properties: Some(
            Map::new()
                .with("operation", "com.microsoft:update-disposition")
                .into(),
        ),
        body: Body::Value(
            Map::new()
                .with("disposition-status", "completed")
                .with("lock-tokens", tokens)
                .into(),
        ),
        ..Message::default()
    };
    let mut request = OutgoingDelivery::new(encode(&request));
    request.state = Some(within_transaction(&txn, None));
    node.requests.send(request).await.unwrap();
    let reply = decode(&within(node.replies.recv()).await.unwrap());
    let reply = read_reply(reply, "statusCode", "errorCondition", "statusDescription");
    assert_eq!(reply.status, 200);
    assert_eq!(queue.counts().unwrap().active, 1);
    discharge(&controller, &txn, false).await;
    assert_eq!(queue.counts().unwrap().active, 0);
}
