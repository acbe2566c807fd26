use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::engine::{Config, CreditMode, LinkError, LinkOptions, OnOutcome};
use servicebus_amqp::net::DeliveryError;
use servicebus_amqp::types::{DeliveryState, Source, Target};
use tokio::time::timeout;

use crate::pair::{LIMIT, connections, connections_with, link, link_with, message, sessions};

/// Case B41: what was cancelled before its turn never goes out, and the counts of both ends agree.
#[tokio::test]
async fn b41_a_dropped_send_that_waits_for_credit_is_taken_back() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(0)).await;
    let mut kept = Vec::new();
    for number in 0..100_u32 {
        let outcome = sender.queue(message(number.to_string())).await.unwrap();
        if number % 2 == 0 {
            kept.push(outcome);
        }
    }
    receiver.set_credit(CreditMode::Exact(100)).unwrap();
    for number in 0..50 {
        let delivery = receiver.recv().await.unwrap();
        assert_eq!(delivery.payload, (number * 2).to_string().as_bytes());
        receiver
            .settle(delivery.delivery, DeliveryState::ACCEPTED)
            .unwrap();
    }
    for outcome in kept {
        outcome.await.unwrap();
    }
    assert_eq!(receiver.status().unwrap().delivery_count, 50);
    assert_eq!(sender.status().unwrap().delivery_count, 50);
}

/// Case B120: a large message that is dropped while its frames go out leaves a stream that others can use.
#[tokio::test]
async fn b120_a_dropped_send_of_many_frames_does_not_break_the_link() {
    let mut small_frames = Config::new("listener");
    small_frames.max_frame_size = 4096;
    let (client, listener) = connections_with(Config::new("client"), small_frames);
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Window(100)).await;
    let body = Bytes::from(vec![1; 1024 * 1024]);
    for polls in 1..40 {
        let mut send = std::pin::pin!(sender.send(message(body.clone())));
        for _ in 0..polls {
            tokio::select! {
                biased;
                outcome = &mut send => { outcome.unwrap(); break }
                () = tokio::task::yield_now() => {}
            }
            for (delivery, _) in receiver.take(10) {
                receiver
                    .settle(delivery.delivery, DeliveryState::ACCEPTED)
                    .unwrap();
            }
        }
    }
    let (outcome, ()) = tokio::join!(sender.send(message("last")), async {
        loop {
            let delivery = receiver.recv().await.unwrap();
            receiver
                .settle(delivery.delivery, DeliveryState::ACCEPTED)
                .unwrap();
            if delivery.payload == "last" {
                break;
            }
            assert_eq!(delivery.payload, body, "a whole message or none");
        }
    });
    assert_eq!(outcome.unwrap(), Some(DeliveryState::ACCEPTED));
}

/// Case B106: a delivery that comes while its receiver is being dropped stays for the next one.
#[tokio::test]
async fn b106_no_delivery_is_lost_by_dropped_receives() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Window(10)).await;
    let sending = async {
        for number in 0..2000_u32 {
            let mut delivery = message(number.to_be_bytes().to_vec());
            delivery.settled = true;
            sender.send(delivery).await.unwrap();
        }
    };
    let receiving = async {
        let mut expected = 0_u32;
        while expected < 2000 {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                delivery = receiver.recv() => {
                    assert_eq!(delivery.unwrap().payload, &expected.to_be_bytes()[..]);
                    expected += 1;
                }
            }
        }
    };
    timeout(LIMIT, async { tokio::join!(sending, receiving) })
        .await
        .unwrap();
}

/// Case B75: an attach whose caller has gone is detached as soon as the peer answers it.
#[tokio::test]
async fn b75_a_dropped_attach_is_detached() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let options = LinkOptions::new(Source::new("here"), Target::new("there"));
    let attach = ours.attach_receiver("link", options, LIMIT);
    let incoming = tokio::select! {
        _ = attach => panic!("nobody answered"),
        incoming = theirs.accept() => incoming.unwrap(),
    };
    let answer = LinkOptions::answer(incoming.attach());
    // The detach may have arrived already; then there is nothing to accept any more.
    if let Ok(servicebus_amqp::net::AcceptedLink::Sender(sender)) = incoming.accept(answer) {
        timeout(LIMIT, sender.ended()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn b46_an_attach_that_is_never_answered_ends_in_time() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let options = LinkOptions::new(Source::new("here"), Target::new("there"));
    let before = tokio::time::Instant::now();
    let error = ours
        .attach_sender("link", options, Duration::from_secs(7))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::NoAnswer), "{error}");
    assert_eq!(before.elapsed(), Duration::from_secs(7));
    drop(theirs);
}

/// A deadline ends the wait to the instant, whatever other deadlines there are, and tells what became of the delivery.
#[tokio::test(start_paused = true)]
async fn outcomes_are_given_up_at_their_deadlines() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(2)).await;
    let began = tokio::time::Instant::now();
    let at = |seconds| (began + Duration::from_secs(seconds)).into_std();
    let mut outcomes = Vec::new();
    // Transferred: 9 and 3. For the others there is no credit.
    for seconds in [9, 3, 7, 5, 100, 1] {
        let outcome = sender.queue(message(seconds.to_string())).await.unwrap();
        outcomes.push(async move {
            let result = outcome.until(at(seconds)).await;
            (seconds, result, began.elapsed())
        });
    }
    let answer = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        receiver.add_credit(10).unwrap();
        loop {
            let delivery = receiver.recv().await.unwrap();
            let last = delivery.payload == "100";
            receiver
                .settle(delivery.delivery, DeliveryState::ACCEPTED)
                .unwrap();
            if last {
                break;
            }
        }
    };
    let (results, ()) = tokio::join!(futures_util::future::join_all(outcomes), answer);
    for (seconds, result, took) in results {
        let expected = match seconds {
            100 => {
                assert_eq!(result.unwrap(), Some(DeliveryState::ACCEPTED));
                Duration::from_secs(20)
            }
            3 | 9 => {
                let error = result.unwrap_err();
                assert!(
                    matches!(error, DeliveryError::Uncertain(LinkError::NoAnswer)),
                    "{error}"
                );
                Duration::from_secs(seconds)
            }
            _ => {
                let error = result.unwrap_err();
                assert!(
                    matches!(error, DeliveryError::NotTransferred(LinkError::NoAnswer)),
                    "{error}"
                );
                Duration::from_secs(seconds)
            }
        };
        assert_eq!(took, expected);
    }
    // What was taken back never came.
    assert_eq!(receiver.status().unwrap().delivery_count, 3);
}

/// The wait for the confirmation of a settlement has an end as well.
#[tokio::test(start_paused = true)]
async fn a_settlement_is_given_up_at_its_deadline() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    // This sender leaves the answer to its application, which gives none.
    let silent = |options: &mut LinkOptions| options.on_outcome = OnOutcome::Report;
    let credit = |_: &_, options: &mut LinkOptions| options.credit = CreditMode::Exact(1);
    let (sender, receiver) = link_with(&ours, &theirs, silent, credit).await;
    let _outcome = sender.queue(message("m")).await.unwrap();
    let delivery = receiver.recv().await.unwrap();
    let began = tokio::time::Instant::now();
    let answer = receiver
        .settle_confirmed(delivery.delivery, DeliveryState::ACCEPTED)
        .unwrap();
    let limit = Duration::from_secs(2);
    let error = answer.until((began + limit).into_std()).await.unwrap_err();
    assert!(
        matches!(error, DeliveryError::Uncertain(LinkError::NoAnswer)),
        "{error}"
    );
    assert_eq!(began.elapsed(), limit);
}
