//! Sessions: accepted by name or the next one, held, lost, given up; and their state.

use servicebus::{
    ErrorKind, KeepLock, Message, ReceiveAndDelete, SessionReceiver, SessionReceiverOptions,
};
use servicebus_emulator::{Answered, Failure, Fault, Operated};

use crate::support::*;

impl World {
    async fn send_to_session(&self, queue: &str, session: &str, texts: &[&str]) {
        let sender = self.client.sender(queue);
        for text in texts {
            let message = Message::new((*text).to_owned()).session_id(session.to_owned());
            soon(sender.send(message)).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_comes_in_order_and_has_a_state() {
    let world = World::new().await;
    world.session_queue("q");
    world.send_to_session("q", "a", &["1", "2"]).await;
    world.send_to_session("q", "b", &["3"]).await;
    let session = soon(world.client.accept_session("q", "a")).await.unwrap();
    assert_eq!(session.session_id(), "a");
    assert!(session.locked_until().is_some());
    assert_eq!(soon(session.state()).await.unwrap(), None);
    soon(session.set_state("step 1")).await.unwrap();
    assert_eq!(
        soon(session.state()).await.unwrap().as_deref(),
        Some(&b"step 1"[..])
    );
    for expected in ["1", "2"] {
        let message = soon(session.receive()).await.unwrap();
        assert_eq!(message.text().as_deref(), Some(expected));
        assert_eq!(message.session_id(), Some("a"));
        soon(message.complete()).await.unwrap();
    }
    assert!(
        soon(session.receive_within(millis(20)))
            .await
            .unwrap()
            .is_none()
    );
    soon(session.clear_state()).await.unwrap();
    assert_eq!(soon(session.state()).await.unwrap(), None);
    soon(session.close()).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_has_one_holder() {
    let world = World::new().await;
    world.session_queue("q");
    let session = soon(world.client.accept_session("q", "a")).await.unwrap();
    let other = world.another_client();
    let error = soon(other.accept_session("q", "a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked);
    soon(session.close()).await;
    soon(other.accept_session("q", "a")).await.unwrap();
}

/// Nobody closes the receiver: dropping it is enough.
#[tokio::test(start_paused = true)]
async fn a_dropped_session_is_free() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    drop(soon(world.client.accept_session("q", "a")).await.unwrap());
    soon(queue.wait_until(|now| now.receivers.is_empty(), secs(5)))
        .await
        .unwrap();
    soon(world.another_client().accept_session("q", "a"))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_session_is_one_with_messages_and_without_a_holder() {
    let world = World::new().await;
    world.session_queue("q");
    world.send_to_session("q", "a", &["1"]).await;
    world.send_to_session("q", "b", &["2"]).await;
    let first = soon(world.client.accept_next_session("q", secs(5)))
        .await
        .unwrap()
        .unwrap();
    let second = soon(world.client.accept_next_session("q", secs(5)))
        .await
        .unwrap()
        .unwrap();
    let mut ids = [first.session_id(), second.session_id()];
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b"]);
}

/// "None" is the service's answer and no error; it comes at the end of the wait.
#[tokio::test(start_paused = true)]
async fn b74_no_next_session_is_none() {
    let world = World::new().await;
    world.session_queue("q");
    let _connected = world.client.accept_session("q", "a").await.unwrap();
    let accept = tokio::spawn({
        let client = world.client.clone();
        async move { client.accept_next_session("q", secs(4)).await }
    });
    world.pass(secs(3)).await;
    assert!(!accept.is_finished());
    world.pass(secs(1)).await;
    assert!(accept.is_finished());
    assert!(accept.await.unwrap().unwrap().is_none());
}

/// A service that never answers is taken for one that has no session, two seconds after it should have answered.
#[tokio::test(start_paused = true)]
async fn b74_silence_is_none() {
    let world = World::new().await;
    world.session_queue("q");
    let _connected = world.client.accept_session("q", "a").await.unwrap();
    world.order(Fault::HalfOpen { connection: None });
    let began = tokio::time::Instant::now();
    let session = world.client.accept_next_session("q", secs(4)).await;
    assert!(session.unwrap().is_none());
    let waited = began.elapsed();
    assert!((secs(4)..secs(7)).contains(&waited), "{waited:?}");
}

/// An attempt that fails in the wait is repeated for the rest of it.
#[tokio::test(start_paused = true)]
async fn b74_the_wait_does_not_begin_anew_with_an_attempt() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    let accept = tokio::spawn({
        let client = world.client.clone();
        async move { client.accept_next_session("q", secs(4)).await }
    });
    for _ in 0..3 {
        world.pass(secs(1)).await;
        world.order(Fault::Drop { connection: None });
    }
    settle().await;
    assert!(!accept.is_finished());
    world.pass(secs(2)).await;
    assert!(accept.is_finished());
    assert!(accept.await.unwrap().unwrap().is_none());
    assert!(queue.snapshot().unwrap().receivers.is_empty());
}

/// A session that is granted to nobody is free again.
#[tokio::test(start_paused = true)]
async fn b75_an_accept_that_is_dropped_leaves_no_session_locked() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    // The connection is there.
    soon(world.client.accept_session("q", "warm"))
        .await
        .unwrap()
        .close()
        .await;
    for round in 0..40 {
        let accept = world.client.accept_session("q", "a");
        tokio::select! {
            biased;
            session = accept => drop(session),
            () = async { for _ in 0..round { tokio::task::yield_now().await } } => {}
        }
    }
    for _ in 0..10 {
        let accept = world.client.accept_next_session("q", secs(60));
        let _ = tokio::time::timeout(millis(100), accept).await;
    }
    soon(queue.wait_until(|now| now.receivers.is_empty(), secs(5)))
        .await
        .unwrap();
    soon(world.client.accept_session("q", "a")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn b76_a_lost_session_is_lost_for_good() {
    let causes = [
        Fault::ExpireSession {
            entity: "q".into(),
            session: "a".into(),
        },
        Fault::Detach {
            entity: "q".into(),
            error: Failure::DetachForced,
        },
        Fault::Drop { connection: None },
    ];
    for cause in causes {
        let world = World::new().await;
        let queue = world.session_queue("q");
        world.send_to_session("q", "a", &["1"]).await;
        let session = soon(world.client.accept_session("q", "a")).await.unwrap();
        let lost = session.lock_lost();
        let message = soon(session.receive()).await.unwrap();
        let waiting = session.receive();
        let fault = async {
            tokio::task::yield_now().await;
            world.order(cause);
        };
        let (error, ()) = soon(async { tokio::join!(waiting, fault) }).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::SessionLockLost);
        soon(lost.cancelled()).await;

        let kinds = [
            soon(session.receive()).await.unwrap_err().kind(),
            soon(session.state()).await.unwrap_err().kind(),
            soon(session.set_state("x")).await.unwrap_err().kind(),
            soon(session.renew_lock()).await.unwrap_err().kind(),
            soon(session.peek(1)).await.unwrap_err().kind(),
            soon(message.complete()).await.unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::SessionLockLost; 6]);
        // It can be had again.
        soon(queue.wait_until(|now| now.receivers.is_empty(), secs(5)))
            .await
            .unwrap();
        let again = soon(world.client.accept_session("q", "a")).await.unwrap();
        let message = soon(again.receive()).await.unwrap();
        assert_eq!(message.text().as_deref(), Some("1"));
        soon(message.complete()).await.unwrap();
    }
}

/// What a settlement that is on its way comes to says whether the message may be settled.
#[tokio::test(start_paused = true)]
async fn b76_a_settlement_crosses_the_loss_of_its_session() {
    let causes = [
        (
            Fault::ExpireSession {
                entity: "q".into(),
                session: "a".into(),
            },
            ErrorKind::SessionLockLost,
        ),
        (Fault::Drop { connection: None }, ErrorKind::Uncertain),
    ];
    for (cause, expected) in causes {
        let world = World::with_frames().await;
        world.session_queue("q");
        world.send_to_session("q", "a", &["1"]).await;
        let session = soon(world.client.accept_session("q", "a")).await.unwrap();
        let message = soon(session.receive()).await.unwrap();
        world.order(lost_answers(Answered::Settle, false, 1));
        let before = world.count_frames("Disposition");
        let complete = message.complete();
        let fault = async {
            while world.count_frames("Disposition") == before {
                tokio::time::sleep(millis(1)).await;
            }
            world.order(cause);
        };
        let (result, ()) = soon(async { tokio::join!(complete, fault) }).await;
        assert_eq!(result.unwrap_err().kind(), expected);
        let again = soon(world.client.accept_session("q", "a")).await.unwrap();
        let message = soon(again.receive()).await.unwrap();
        assert_eq!(message.text().as_deref(), Some("1"));
    }
}

/// The lock is renewed on its own, for the time that was asked for.
#[tokio::test(start_paused = true)]
async fn b112_a_session_is_kept_while_its_handler_works() {
    let world = World::new().await;
    world.session_queue("q");
    world.send_to_session("q", "a", &["1"]).await;
    let options = SessionReceiverOptions::new().keep_lock(KeepLock::UntilSettled);
    let session: SessionReceiver = world
        .client
        .accept_session_with("q", "a", options)
        .await
        .unwrap();
    let message = session.receive().await.unwrap();
    world.pass(secs(600)).await;
    message.complete().await.unwrap();
    assert!(!session.lock_lost().is_cancelled());
}

/// A service that is busy with a settlement does not take the session away.
#[tokio::test(start_paused = true)]
async fn b101_a_busy_service_costs_no_session() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    world.send_to_session("q", "a", &["1", "2"]).await;
    let session = soon(world.client.accept_session("q", "a")).await.unwrap();
    for _ in 0..2 {
        let message = soon(session.receive()).await.unwrap();
        world.order(Fault::Fail {
            entity: "q".into(),
            operation: Operated::Settle,
            error: Failure::ServerBusy,
            times: 2,
        });
        soon(message.complete()).await.unwrap();
    }
    assert!(!session.lock_lost().is_cancelled());
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// The receiver of a session is dropped while a message of it is still worked at: it is the session's lock that the
/// message is held by.
#[tokio::test(start_paused = true)]
async fn b112_a_session_is_kept_for_a_message_that_outlives_its_receiver() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    world.send_to_session("q", "a", &["1"]).await;
    let session = world.client.accept_session("q", "a").await.unwrap();
    let message = session.receive().await.unwrap();
    drop(session);
    world.pass(secs(150)).await;
    assert!(!message.lock_lost().is_cancelled());
    message.complete().await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
    soon(queue.wait_until(|now| now.receivers.is_empty(), secs(5)))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_renewed_is_lost() {
    let world = World::new().await;
    world.session_queue("q");
    let options = SessionReceiverOptions::new().keep_lock(KeepLock::Off);
    let session: SessionReceiver = world
        .client
        .accept_session_with("q", "a", options)
        .await
        .unwrap();
    world.pass(secs(40)).await;
    soon(session.renew_lock()).await.unwrap();
    world.pass(secs(40)).await;
    soon(session.state()).await.unwrap();
    world.pass(secs(61)).await;
    let error = soon(session.receive()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLockLost);
}

/// B79: after an abandon the same message comes next.
#[tokio::test(start_paused = true)]
async fn b79_an_abandoned_message_comes_next_again() {
    let world = World::new().await;
    world.session_queue("q");
    let all = ["1", "2", "3", "4", "5", "6"];
    world.send_to_session("q", "a", &all).await;
    let session = soon(world.client.accept_session("q", "a")).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 7 {
        let message = soon(session.receive()).await.unwrap();
        seen.push(message.text().unwrap().to_string());
        if seen.last().is_some_and(|text| text == "4") && message.delivery_count() == 1 {
            soon(message.abandon()).await.unwrap();
        } else {
            soon(message.complete()).await.unwrap();
        }
    }
    assert_eq!(seen, ["1", "2", "3", "4", "4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn deferred_peeked_and_deleted_messages_of_a_session() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    world.send_to_session("q", "a", &["1", "2"]).await;
    world.send_to_session("q", "b", &["3"]).await;
    let session = soon(world.client.accept_session("q", "a")).await.unwrap();
    assert_eq!(texts(&soon(session.peek(10)).await.unwrap()), ["1", "2"]);
    let message = soon(session.receive()).await.unwrap();
    let number = message.sequence_number();
    soon(message.defer()).await.unwrap();
    let deferred = soon(session.receive_deferred([number])).await.unwrap();
    assert_eq!(texts(&deferred), ["1"]);
    for message in deferred {
        soon(message.complete()).await.unwrap();
    }
    let options = SessionReceiverOptions::new();
    let deleting: SessionReceiver<ReceiveAndDelete> =
        soon(world.client.accept_session_with("q", "b", options))
            .await
            .unwrap();
    assert_eq!(
        soon(deleting.receive()).await.unwrap().text().as_deref(),
        Some("3")
    );
    assert_eq!(queue.counts().unwrap().active, 1);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed() {
    let world = World::new().await;
    world.session_queue("q");
    for session in ["a", "b", "c"] {
        world.send_to_session("q", session, &["m"]).await;
    }
    let mut ids = soon(world.client.list_sessions("q", None)).await.unwrap();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b", "c"]);
    let before = world.emulator.now();
    world.advance(secs(1)).await;
    let session = soon(world.client.accept_session("q", "b")).await.unwrap();
    soon(session.set_state("x")).await.unwrap();
    let ids = soon(world.client.list_sessions("q", Some(before)))
        .await
        .unwrap();
    assert_eq!(ids, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn the_kind_of_receiver_has_to_fit_the_entity() {
    let world = World::new().await;
    world.session_queue("sessions");
    world.queue("plain");
    let error = soon(world.client.receiver("sessions").receive())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    let error = soon(world.client.accept_session("plain", "a"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    let error = soon(world.client.accept_session("sessions", "x".repeat(129)))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// B18: the empty text is a session.
#[tokio::test(start_paused = true)]
async fn b18_the_empty_id_is_a_session() {
    let world = World::new().await;
    world.session_queue("q");
    world.send_to_session("q", "", &["m"]).await;
    let session = soon(world.client.accept_session("q", "")).await.unwrap();
    assert_eq!(session.session_id(), "");
    assert_eq!(
        soon(session.receive()).await.unwrap().text().as_deref(),
        Some("m")
    );
}

/// B118: a thousand at a time, with one pair of links for the requests of all.
#[tokio::test(start_paused = true)]
async fn b118_a_thousand_sessions_at_a_time() {
    let world = World::with_frames().await;
    let queue = world.session_queue("q");
    let messages = (0..1000).flat_map(|session| {
        (0..10).map(move |n| Message::new(n.to_string()).session_id(session.to_string()))
    });
    soon(world.client.sender("q").send_all(messages))
        .await
        .unwrap();
    let accepted = together((0..1000).map(|_| {
        let client = world.client.clone();
        async move {
            let session = client.accept_next_session("q", secs(30)).await;
            let session = session.unwrap().unwrap();
            session.renew_lock().await.unwrap();
            session
        }
    }))
    .await;
    assert_eq!(world.emulator.connections().len(), 1);
    assert_eq!(queue.snapshot().unwrap().receivers.len(), 1000);
    let frames = world.emulator.frames();
    let to_node = |line: &&str| {
        line.contains("<-") && line.contains("Attach") && line.contains("q/$management")
    };
    assert_eq!(frames.lines().filter(to_node).count(), 2);

    together(accepted.into_iter().map(|session| async move {
        for expected in 0..10 {
            let message = session.receive().await.unwrap();
            assert_eq!(message.text().unwrap(), expected.to_string());
            message.complete().await.unwrap();
        }
    }))
    .await;
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// What all of these give, which run at the same time.
async fn together<T: Send + 'static>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: tokio::task::JoinSet<T> = futures.into_iter().collect();
    tokio::time::timeout(secs(60), tasks.join_all())
        .await
        .unwrap()
}

/// A session that was given up is not renewed any more, though its receiver is still there.
#[tokio::test(start_paused = true)]
async fn b83_a_session_that_was_closed_or_lost_is_not_renewed() {
    let world = World::with_frames().await;
    let queue = world.session_queue("q");
    let closed = world.client.accept_session("q", "a").await.unwrap();
    let lost = world.client.accept_session("q", "b").await.unwrap();
    world.pass(secs(55)).await;
    closed.close().await;
    world.detach("q", Failure::DetachForced);
    queue
        .wait_until(|now| now.receivers.is_empty(), secs(5))
        .await
        .unwrap();
    // Others have them now.
    let other = world.another_client();
    let options = || SessionReceiverOptions::new().keep_lock(KeepLock::Off);
    let _a: SessionReceiver = other
        .accept_session_with("q", "a", options())
        .await
        .unwrap();
    let _b: SessionReceiver = other
        .accept_session_with("q", "b", options())
        .await
        .unwrap();
    let before = world.count_frames("Transfer");
    world.pass(secs(120)).await;
    assert_eq!(world.count_frames("Transfer"), before);
    drop((closed, lost));
}

/// The answer to a settlement was lost with the session: nothing says that the message comes again.
#[tokio::test(start_paused = true)]
async fn b59_a_settlement_whose_answer_was_lost_with_the_session_is_uncertain() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    world.send_to_session("q", "a", &["1"]).await;
    let session = soon(world.client.accept_session("q", "a")).await.unwrap();
    let message = soon(session.receive()).await.unwrap();
    let error = world.complete_without_answer(&queue, message).await;
    assert_eq!(error.kind(), ErrorKind::Uncertain);
}

/// What is being done about a message is told when its session is lost.
#[tokio::test(start_paused = true)]
async fn b76_a_message_tells_of_the_loss_of_its_session() {
    let world = World::new().await;
    world.session_queue("q");
    world.send_to_session("q", "a", &["1", "2"]).await;
    let options = SessionReceiverOptions::new().keep_lock(KeepLock::Off);
    let session: SessionReceiver = world
        .client
        .accept_session_with("q", "a", options)
        .await
        .unwrap();
    let message = session.receive().await.unwrap();
    let number = message.sequence_number();
    message.defer().await.unwrap();
    let deferred = session.receive_deferred([number]).await.unwrap().remove(0);
    let message = session.receive().await.unwrap();
    let lost = [message.lock_lost(), deferred.lock_lost()];
    world.pass(secs(30)).await;
    assert!(lost.iter().all(|lost| !lost.is_cancelled()));
    world.pass(secs(31)).await;
    assert!(lost.iter().all(|lost| lost.is_cancelled()));
    assert!(message.lock_lost().is_cancelled());
    let error = message.complete().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLockLost);
}
