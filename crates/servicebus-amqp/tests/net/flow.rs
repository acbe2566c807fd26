use bytes::Bytes;
use servicebus_amqp::engine::{CreditMode, DrainPolicy, LinkError};
use servicebus_amqp::net::DeliveryError;
use servicebus_amqp::types::{DeliveryState, Outcome, ReceiverSettleMode, SenderSettleMode};
use tokio::time::timeout;

use crate::pair::{LIMIT, connections, exchange, link, link_with, message, sessions};

#[tokio::test]
async fn a_message_goes_over_and_its_outcome_comes_back() {
    let (client, listener) = connections();
    exchange(&client, &listener).await;
}

#[tokio::test]
async fn deliveries_keep_their_order_while_many_are_in_flight() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Window(100)).await;
    let sending = async {
        let mut outcomes = Vec::new();
        for number in 0..5000_u32 {
            outcomes.push(
                sender
                    .queue(message(number.to_be_bytes().to_vec()))
                    .await
                    .unwrap(),
            );
        }
        for outcome in outcomes {
            assert_eq!(outcome.await.unwrap(), Some(DeliveryState::ACCEPTED));
        }
    };
    let receiving = async {
        for number in 0..5000_u32 {
            let delivery = receiver.recv().await.unwrap();
            assert_eq!(delivery.payload, &number.to_be_bytes()[..]);
            receiver
                .settle(delivery.delivery, DeliveryState::ACCEPTED)
                .unwrap();
        }
    };
    timeout(LIMIT, async { tokio::join!(sending, receiving) })
        .await
        .unwrap();
}

/// Whoever waits for several deliveries is told of each, and those who wait for any of the first.
#[tokio::test]
async fn waiting_for_several_deliveries() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Window(10)).await;
    let waiting = |count| {
        let receiver = receiver.clone();
        tokio::spawn(async move { receiver.wait_for(count).await.unwrap() })
    };
    let waits = [1, 2, 3].map(waiting);
    let mut outcomes = Vec::new();
    for wait in waits {
        // Those who wait have looked before the next delivery is there.
        tokio::task::yield_now().await;
        outcomes.push(sender.queue(message("m")).await.unwrap());
        timeout(LIMIT, wait).await.unwrap().unwrap();
    }
    assert_eq!(receiver.take(10).len(), 3);
}

/// Both directions at once, with bodies larger than the pipe between them: each side has more to write than the other
/// takes at a time, so a side that stopped reading while it writes would stop both for ever.
#[tokio::test]
async fn two_busy_peers_never_stall() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (to_listener, at_listener) = link(&ours, &theirs, CreditMode::Window(50)).await;
    let (to_client, at_client) = link(&theirs, &ours, CreditMode::Window(50)).await;
    let body = Bytes::from(vec![7; 200 * 1024]);
    let send = async |sender: servicebus_amqp::net::SenderLink| {
        let mut outcomes = Vec::new();
        for _ in 0..200 {
            outcomes.push(sender.queue(message(body.clone())).await.unwrap());
        }
        for outcome in outcomes {
            outcome.await.unwrap();
        }
    };
    let receive = async |receiver: servicebus_amqp::net::ReceiverLink| {
        for _ in 0..200 {
            let delivery = receiver.recv().await.unwrap();
            assert_eq!(delivery.payload.len(), body.len());
            receiver
                .settle(delivery.delivery, DeliveryState::ACCEPTED)
                .unwrap();
        }
    };
    let all = async {
        tokio::join!(
            send(to_listener),
            send(to_client),
            receive(at_listener),
            receive(at_client)
        )
    };
    timeout(LIMIT * 3, all).await.unwrap();
}

/// Taken deliveries are reported to the engine some at a time; what was not reported yet is not lost with a new window.
#[tokio::test]
async fn a_window_that_is_set_again_stays_as_wide() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let window = CreditMode::Window(8);
    let (sender, receiver) = link(&ours, &theirs, window).await;
    for _ in 0..20 {
        let mut settled = message("m");
        settled.settled = true;
        timeout(LIMIT, sender.send(settled)).await.unwrap().unwrap();
        receiver.recv().await.unwrap();
        receiver.set_credit(window).unwrap();
    }
    assert_eq!(receiver.status().unwrap().credit, 8);
}

#[tokio::test]
async fn a_second_mode_settlement_reports_what_the_sender_answers() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link_with(
        &ours,
        &theirs,
        |options| {
            options.snd_settle_mode = SenderSettleMode::Unsettled;
            options.rcv_settle_mode = ReceiverSettleMode::Second;
        },
        |_, options| options.credit = CreditMode::Exact(1),
    )
    .await;
    let (sent, answered) = tokio::join!(sender.send(message("hello")), async {
        let delivery = receiver.recv().await.unwrap();
        let state = DeliveryState::Outcome(Outcome::Released);
        receiver
            .settle_confirmed(delivery.delivery, state)
            .unwrap()
            .await
    });
    assert_eq!(sent.unwrap(), Some(DeliveryState::RELEASED));
    assert_eq!(answered.unwrap(), Some(DeliveryState::RELEASED));
    assert_eq!(sender.status().unwrap().unsettled, 0);
}

#[tokio::test]
async fn drain_ends_with_what_there_was() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(10)).await;
    let outcomes = [
        sender.queue(message("a")).await.unwrap(),
        sender.queue(message("b")).await.unwrap(),
    ];
    timeout(LIMIT, receiver.drain()).await.unwrap().unwrap();
    let bodies: Vec<Bytes> = receiver
        .take(10)
        .into_iter()
        .map(|(delivery, _)| delivery.payload)
        .collect();
    assert_eq!(bodies, ["a", "b"]);
    assert_eq!(receiver.status().unwrap().credit, 0);
    drop(outcomes);
}

#[tokio::test]
async fn settling_twice_is_refused_here() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(1)).await;
    let outcome = sender.queue(message("a")).await.unwrap();
    let delivery = receiver.recv().await.unwrap().delivery;
    receiver.settle(delivery, DeliveryState::ACCEPTED).unwrap();
    let again = receiver
        .settle(delivery, DeliveryState::RELEASED)
        .unwrap_err();
    assert!(matches!(again, DeliveryError::Refused(_)), "{again}");
    assert_eq!(outcome.await.unwrap(), Some(DeliveryState::ACCEPTED));
}

#[tokio::test]
async fn a_link_that_ended_still_gives_out_what_had_arrived() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(2)).await;
    let mut settled = message("a");
    settled.settled = true;
    sender.send(settled).await.unwrap();
    sender
        .detach(servicebus_amqp::engine::DetachMode::Close, None)
        .await;
    let error = receiver.ended().await;
    assert!(
        matches!(
            error,
            LinkError::DetachedByPeer {
                closed: true,
                error: None
            }
        ),
        "{error}"
    );
    assert_eq!(receiver.recv().await.unwrap().payload, "a");
    assert!(receiver.recv().await.is_err());
}

/// A broker has more to send when it is asked to drain than what it has queued in the engine.
#[tokio::test]
async fn a_sender_can_answer_a_drain_with_what_it_has() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link_with(
        &ours,
        &theirs,
        |options| options.drain = DrainPolicy::Manual,
        |_, options| options.credit = CreditMode::Exact(5),
    )
    .await;
    let answer = async {
        sender.drain_requested().await.unwrap();
        let outcome = sender.queue(message("last")).await.unwrap();
        sender.drained().unwrap();
        vec![outcome]
    };
    let (drained, outcomes) = tokio::join!(receiver.drain(), answer);
    drained.unwrap();
    let delivery = receiver.try_recv().unwrap();
    assert_eq!(delivery.payload, "last");
    receiver
        .settle(delivery.delivery, DeliveryState::ACCEPTED)
        .unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.await.unwrap(), Some(DeliveryState::ACCEPTED));
    }
    assert_eq!(receiver.status().unwrap().credit, 0);
}
