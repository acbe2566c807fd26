//! What is lost comes again: links, connections, tokens; and what is only lost for good says so.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use servicebus::{
    Client, ClientState, Connect, Connecting, ErrorKind, ReceiverOptions, RetryOptions,
};
use servicebus_emulator::{Failure, Fault, Operated};

use crate::support::*;

/// The idle detach of the service is nothing to a receive that waits.
#[tokio::test(start_paused = true)]
async fn b107_a_waiting_receive_outlives_its_links() {
    let world = World::new().await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    let waiting = tokio::spawn(async move { receiver.receive().await.unwrap() });
    for error in [
        Failure::DetachForced,
        Failure::Timeout,
        Failure::DetachForced,
    ] {
        soon(queue.wait_until(
            |now| now.receivers.first().is_some_and(|r| r.credit == 1),
            secs(30),
        ))
        .await
        .unwrap();
        world.pass(secs(600)).await;
        world.detach("q", error);
    }
    soon(queue.wait_until(
        |now| now.receivers.first().is_some_and(|r| r.credit == 1),
        secs(30),
    ))
    .await
    .unwrap();
    world.send("q", &["m"]).await;
    let message = soon(waiting).await.unwrap();
    assert_eq!(message.text().as_deref(), Some("m"));
}

/// The time of a receive ends while its link is being attached again: there was nothing, and the next one goes on.
#[tokio::test(start_paused = true)]
async fn b107_a_receive_that_ends_between_two_links() {
    let world = World::with(impatient().retry(RetryOptions::default())).await;
    world.queue("q");
    let receiver = world.client.receiver("q");
    assert!(
        soon(receiver.receive_within(secs(1)))
            .await
            .unwrap()
            .is_none()
    );
    world.order(fail(Operated::Attach, Failure::InternalError, 2));
    world.detach("q", Failure::DetachForced);
    assert!(
        receiver
            .receive_within(millis(500))
            .await
            .unwrap()
            .is_none()
    );
    world.send("q", &["m"]).await;
    let message = receiver.receive().await.unwrap();
    assert_eq!(message.text().as_deref(), Some("m"));
}

/// B105: the new link has the credit that is waited for, or fetched ahead.
#[tokio::test(start_paused = true)]
async fn b105_a_new_link_has_its_credit() {
    for (prefetch, expected) in [(0, 1), (100, 100)] {
        let retry = impatient().retry.max_retries(10);
        let world = World::with(impatient().retry(retry)).await;
        let queue = world.queue("q");
        let options = ReceiverOptions::new().prefetch(prefetch);
        let receiver = world.client.receiver_with("q", options);
        let waiting = tokio::spawn(async move { receiver.receive().await.unwrap() });
        for _ in 0..5 {
            let credit = |now: &servicebus_emulator::broker::Snapshot| {
                now.receivers.len() == 1 && now.receivers[0].credit == expected
            };
            soon(queue.wait_until(credit, secs(5))).await.unwrap();
            world.detach("q", Failure::DetachForced);
            soon(queue.wait_until(|now| now.receivers.is_empty(), secs(5)))
                .await
                .unwrap();
        }
        world.send("q", &["m"]).await;
        soon(waiting).await.unwrap().complete().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn everything_works_on_the_next_connection() {
    let faults = [
        Fault::Drop { connection: None },
        Fault::Close {
            connection: None,
            condition: "amqp:connection:forced".into(),
            description: "upgrade".into(),
        },
    ];
    for fault in faults {
        let world = World::new().await;
        let queue = world.queue("q");
        let sender = world.client.sender("q");
        let receiver = world.client.receiver("q");
        let mut state = world.client.state();
        assert_eq!(*state.borrow_and_update(), ClientState::Idle);
        soon(sender.send("1")).await.unwrap();
        assert_eq!(*state.borrow_and_update(), ClientState::Connected);
        let held = soon(receiver.receive()).await.unwrap();
        soon(receiver.peek(1)).await.unwrap();
        world.order(fault);
        soon(state.wait_for(|state| matches!(state, ClientState::Recovering { .. })))
            .await
            .unwrap();
        soon(sender.send("2")).await.unwrap();
        assert_eq!(*state.borrow_and_update(), ClientState::Connected);
        soon(receiver.peek(1)).await.unwrap();
        let message = soon(receiver.receive()).await.unwrap();
        assert_eq!(message.text().as_deref(), Some("2"));
        soon(message.complete()).await.unwrap();
        soon(held.complete()).await.unwrap();
        assert_eq!(queue.counts().unwrap().active, 0);
    }
}

/// B52: a cold client makes one connection, however many begin at once and give up midway.
#[tokio::test(start_paused = true)]
async fn b52_many_begin_at_once_on_a_cold_client() {
    let world = World::with_frames().await;
    for n in 0..100 {
        world.queue(&format!("q{n}"));
    }
    let mut tasks = Vec::new();
    for n in 0..100 {
        let sender = world.client.sender(format!("q{n}"));
        let task = tokio::spawn(async move { sender.send("m").await });
        if n % 2 == 0 {
            tasks.push(task);
        } else {
            tokio::task::yield_now().await;
            task.abort();
        }
    }
    for task in tasks {
        soon(task).await.unwrap().unwrap();
    }
    assert_eq!(world.emulator.connections().len(), 1);
    assert_eq!(world.count_frames("name: \"$cbs-"), 2, "one link each way");
}

/// A dead peer is noticed by its silence.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up() {
    let world = World::with(impatient().idle_timeout(secs(20))).await;
    world.queue("q");
    let sender = world.client.sender("q");
    sender.send("1").await.unwrap();
    world.order(Fault::HalfOpen { connection: None });
    let mut state = world.client.state();
    state.borrow_and_update();
    tokio::time::timeout(secs(60), state.wait_for(|s| *s != ClientState::Connected))
        .await
        .unwrap()
        .unwrap();
    soon(sender.send("2")).await.unwrap();
}

/// B45: the reason of a refused link is told, at once and once.
#[tokio::test(start_paused = true)]
async fn b45_a_refused_link_says_why() {
    let rows = [
        (Failure::EntityNotFound, ErrorKind::EntityNotFound),
        (Failure::EntityDisabled, ErrorKind::EntityDisabled),
        (Failure::QuotaExceeded, ErrorKind::QuotaExceeded),
    ];
    for (failure, kind) in rows {
        let world = World::new().await;
        world.queue("q");
        world.order(Fault::Fail {
            entity: "q".into(),
            operation: Operated::Attach,
            error: failure,
            times: 1,
        });
        let error = soon(world.client.receiver("q").receive())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(error.entity(), Some("q"));
    }
}

/// B103: a token that is refused is put anew, once.
#[tokio::test(start_paused = true)]
async fn b103_an_unauthorised_link_is_tried_once_more_with_a_new_token() {
    for (times, received) in [(1, true), (2, false)] {
        let world = World::new().await;
        world.queue("q");
        world.send("q", &["m"]).await;
        world.order(Fault::Fail {
            entity: "q".into(),
            operation: Operated::Attach,
            error: Failure::Unauthorized,
            times,
        });
        let result = soon(world.client.receiver("q").receive()).await;
        match result {
            Ok(_) => assert!(received),
            Err(error) => {
                assert!(!received);
                assert_eq!(error.kind(), ErrorKind::Unauthorized);
            }
        }
    }
}

/// B46: an entity that keeps throwing its links out does not make the client spin.
#[tokio::test(start_paused = true)]
async fn b46_links_that_end_at_once_are_made_again_with_pauses() {
    let retry = RetryOptions::default();
    let world = World::with(impatient().retry(retry)).await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    let began = tokio::time::Instant::now();
    let receive = tokio::spawn(async move { receiver.receive().await });
    let mut links = 0;
    while !receive.is_finished() {
        if queue
            .wait_until(|now| !now.receivers.is_empty(), secs(30))
            .await
            .is_ok()
        {
            links += 1;
            world.detach("q", Failure::DetachForced);
        }
        let _ = queue
            .wait_until(|now| now.receivers.is_empty(), secs(30))
            .await;
        tokio::task::yield_now().await;
        if links > 50 {
            panic!("the client spins");
        }
    }
    let error = receive.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Communication);
    assert_eq!(links, 4, "one attempt and three repetitions");
    assert!(began.elapsed() > secs(4));
}

/// B72: management calls that are dropped do not harm later ones.
#[tokio::test(start_paused = true)]
async fn b72_dropped_management_calls_leave_nothing_behind() {
    let world = World::new().await;
    world.queue("q");
    world.send("q", &["1"]).await;
    let receiver = world.client.receiver("q");
    for round in 0..300 {
        let mut peek = Box::pin(receiver.peek_from(0, 1));
        for _ in 0..round % 30 {
            if futures_util::poll!(&mut peek).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(texts(&soon(receiver.peek_from(0, 1)).await.unwrap()), ["1"]);
}

/// B70: what the management node answers.
#[tokio::test(start_paused = true)]
async fn b70_management_failures() {
    let rows = [
        (Failure::InternalError, 3, None),
        (Failure::InternalError, 4, Some(ErrorKind::Other)),
        (Failure::Timeout, 3, None),
        (Failure::ServerBusy, 1, None),
        (Failure::Unauthorized, 1, None),
        (Failure::Unauthorized, 2, Some(ErrorKind::Unauthorized)),
        (Failure::EntityNotFound, 1, Some(ErrorKind::EntityNotFound)),
        (Failure::EntityDisabled, 1, Some(ErrorKind::EntityDisabled)),
    ];
    for (error, times, expected) in rows {
        let world = World::new().await;
        world.queue("q");
        world.order(Fault::Fail {
            entity: "q".into(),
            operation: Operated::Manage,
            error,
            times,
        });
        let result = soon(world.client.receiver("q").peek(1)).await;
        assert_eq!(
            result.err().map(|error| error.kind()),
            expected,
            "{error:?} {times}"
        );
    }
}

/// A host that cannot be reached.
#[derive(Debug)]
pub(crate) struct Away {
    inner: InMemory,
    pub(crate) away: std::sync::atomic::AtomicBool,
    pub(crate) tried: std::sync::atomic::AtomicUsize,
}

#[derive(Debug)]
struct Road(Arc<Away>);

impl Connect for Road {
    fn connect(&self, config: servicebus_amqp::engine::Config) -> Connecting<'_> {
        self.0.tried.fetch_add(1, Ordering::Relaxed);
        if self.0.away.load(Ordering::Relaxed) {
            let error = std::io::Error::new(std::io::ErrorKind::HostUnreachable, "no such road");
            return Box::pin(std::future::ready(Err(error.into())));
        }
        self.0.inner.connect(config)
    }
}

pub(crate) async fn world_away() -> (World, Arc<Away>) {
    let world = World::new().await;
    world.queue("q");
    let away = Arc::new(Away {
        inner: InMemory(Arc::clone(&world.emulator)),
        away: true.into(),
        tried: 0.into(),
    });
    let connector: Arc<dyn Connect> = Arc::new(Road(Arc::clone(&away)));
    let options = impatient()
        .retry(RetryOptions::default())
        .connector(connector);
    let text = world.emulator.connection_string();
    let client = Client::from_connection_string_with(&text, options).unwrap();
    let emulator = Arc::clone(&world.emulator);
    (World { emulator, client }, away)
}

/// An operation fails after its attempts, with the cause; the next one tries again.
#[tokio::test(start_paused = true)]
async fn b28_a_host_that_cannot_be_reached_fails_in_bounded_time() {
    let (world, away) = world_away().await;
    let sender = world.client.sender("q");
    let began = tokio::time::Instant::now();
    let error = sender.send("m").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Communication);
    assert!(error.to_string().contains("no such road"), "{error}");
    assert!(error.is_transient());
    assert_eq!(away.tried.load(Ordering::Relaxed), 4);
    assert!(began.elapsed() < secs(15));
    assert!(matches!(
        *world.client.state().borrow(),
        ClientState::Recovering { .. }
    ));
    away.away.store(false, Ordering::Relaxed);
    soon(sender.send("m")).await.unwrap();
    assert_eq!(*world.client.state().borrow(), ClientState::Connected);
}

/// B90: whatever happens to links and connections, each message reaches a consumer that goes on.
#[tokio::test(start_paused = true)]
async fn b90_chaos() {
    let retry = impatient().retry.max_retries(50).try_timeout(millis(500));
    let world = World::with(impatient().retry(retry)).await;
    let queue = world.queue("q");
    let consumer = tokio::spawn({
        let receiver = world
            .client
            .receiver_with("q", ReceiverOptions::new().prefetch(5));
        async move {
            let mut seen = std::collections::HashSet::new();
            while seen.len() < 400 {
                let message = match receiver.receive().await {
                    Ok(message) => message,
                    Err(error) => panic!("the consumer was told: {error}"),
                };
                seen.insert(message.text().unwrap().to_string());
                // A lost lock brings the message again.
                let _ = message.complete().await;
            }
        }
    });
    let sender = world.client.sender("q");
    for n in 0..400u32 {
        let fault = match n % 40 {
            7 => Some(Fault::Drop { connection: None }),
            13 => Some(Fault::Detach {
                entity: "q".into(),
                error: Failure::DetachForced,
            }),
            19 => Some(fail(Operated::Attach, Failure::ServerBusy, 2)),
            23 => Some(fail(Operated::Settle, Failure::InternalError, 3)),
            29 => Some(Fault::Close {
                connection: None,
                condition: "amqp:connection:forced".into(),
                description: String::new(),
            }),
            31 => Some(fail(Operated::Send, Failure::Timeout, 2)),
            37 => Some(fail(Operated::Attach, Failure::Unauthorized, 1)),
            _ => None,
        };
        if let Some(fault) = fault {
            world.order(fault);
        }
        // Sent twice where the answer was lost: the consumer counts names.
        tokio::time::timeout(secs(30), sender.send(n.to_string()))
            .await
            .unwrap()
            .unwrap();
    }
    tokio::time::timeout(secs(60), consumer)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(queue.counts().unwrap().dead_letter, 0);
}

fn fail(operation: Operated, error: Failure, times: u32) -> Fault {
    Fault::Fail {
        entity: "q".into(),
        operation,
        error,
        times,
    }
}

/// A future that is begun and then left alone, as the other arm of a `select!` does, keeps nobody else waiting.
#[tokio::test(start_paused = true)]
async fn b42_a_future_that_is_not_polled_keeps_nobody_waiting() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.session_queue("s");
    let client = &world.client;
    let (sender, receiver) = (client.sender("q"), client.receiver("q"));
    let mut accept = Box::pin(client.accept_session("s", "a"));
    let mut send = Box::pin(sender.send("1"));
    let mut peek = Box::pin(receiver.peek(1));
    assert!(futures_util::poll!(&mut accept).is_pending());
    assert!(futures_util::poll!(&mut send).is_pending());
    assert!(futures_util::poll!(&mut peek).is_pending());
    soon(sender.clone().send("2")).await.unwrap();
    soon(receiver.clone().peek(1)).await.unwrap();
    soon(client.accept_session("s", "b")).await.unwrap();
    soon(sender.close()).await;
    assert_eq!(queue.counts().unwrap().active, 1);
    soon(accept).await.unwrap();
}

/// The service takes idle links away, and then the connection that has none: the next use does not notice.
#[tokio::test(start_paused = true)]
async fn b21_an_idle_connection_that_was_closed_is_opened_again() {
    let world = World::with_frames().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    sender.send("1").await.unwrap();
    world.pass(secs(600)).await;
    world.detach("q", Failure::DetachForced);
    world.pass(secs(300)).await;
    world.order(Fault::Close {
        connection: None,
        condition: "amqp:connection:forced".into(),
        description: "no links".into(),
    });
    soon(world.no_connections()).await;
    world.pass(secs(100)).await;
    soon(sender.send("2")).await.unwrap();
    soon(world.client.receiver("q").peek(1)).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 2);
    assert_eq!(world.emulator.connections().len(), 1);
}
