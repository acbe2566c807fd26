use std::time::Duration;

use servicebus_amqp::engine::{
    Config, ConnectionError, CreditMode, LinkError, LinkOptions, RequestError, SessionError,
    SessionOptions, Side,
};
use servicebus_amqp::net::{Connection, DeliveryError};
use servicebus_amqp::types::{AmqpError, Map, Source, Target, condition};
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::pair::{LIMIT, connections, connections_with, exchange, link, message, sessions};

#[tokio::test]
async fn closing_twice_gives_the_same_end() {
    let (client, listener) = connections();
    exchange(&client, &listener).await;
    assert!(matches!(
        client.close().await,
        ConnectionError::ClosedLocally
    ));
    assert!(matches!(
        client.close().await,
        ConnectionError::ClosedLocally
    ));
    assert!(matches!(
        listener.closed().await,
        ConnectionError::ClosedByPeer(None)
    ));
    let error = client.begin(SessionOptions::default()).await.unwrap_err();
    assert!(
        matches!(
            error,
            SessionError::Connection(ConnectionError::ClosedLocally)
        ),
        "{error}"
    );
}

#[tokio::test]
async fn the_peer_is_told_why() {
    let (client, listener) = connections();
    client.opened().await.unwrap();
    listener
        .close_with(AmqpError::new(condition::CONNECTION_FORCED, "maintenance"))
        .await;
    let ConnectionError::ClosedByPeer(Some(error)) = client.closed().await else {
        panic!("no reason")
    };
    assert_eq!(error.condition, condition::CONNECTION_FORCED);
    assert_eq!(error.description.as_deref(), Some("maintenance"));
}

/// Case B27: a peer that has stopped answering does not hold up a close.
#[tokio::test(start_paused = true)]
async fn b27_closing_is_bounded_when_the_peer_is_silent() {
    let (near, mut far) = tokio::io::duplex(1024 * 1024);
    let client = Connection::over(near, Side::Client, Config::new("client"));
    let mut header = [0; 8];
    far.read_exact(&mut header).await.unwrap();
    let before = tokio::time::Instant::now();
    client.close().await;
    assert!(
        before.elapsed() <= Duration::from_secs(5),
        "{:?}",
        before.elapsed()
    );
}

/// Case B122: a connection whose handles are gone is closed, and not just dropped.
#[tokio::test]
async fn b122_dropping_all_handles_closes_in_the_background() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(1)).await;
    drop(sender);
    let error = timeout(LIMIT, receiver.ended()).await.unwrap();
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
    drop(ours);
    let error = timeout(LIMIT, theirs.accept()).await.unwrap().unwrap_err();
    assert!(matches!(error, SessionError::EndedByPeer(None)), "{error}");
    drop(client);
    let error = timeout(LIMIT, listener.closed()).await.unwrap();
    assert!(
        matches!(error, ConnectionError::ClosedByPeer(None)),
        "{error}"
    );
}

/// What was not transferred may be sent again elsewhere; what was must not be without care.
#[tokio::test]
async fn the_end_of_a_link_tells_unsent_from_uncertain() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(1)).await;
    let transferred = sender.queue(message("a")).await.unwrap();
    let waiting = sender.queue(message("b")).await.unwrap();
    receiver.recv().await.unwrap();
    theirs
        .end(Some(AmqpError::new(condition::INTERNAL_ERROR, "oops")))
        .await;
    let error = transferred.await.unwrap_err();
    assert!(matches!(error, DeliveryError::Uncertain(_)), "{error}");
    let error = waiting.await.unwrap_err();
    assert!(matches!(error, DeliveryError::NotTransferred(_)), "{error}");
    let error = sender.send(message("c")).await.unwrap_err();
    assert!(matches!(error, DeliveryError::NotTransferred(_)), "{error}");
}

#[tokio::test]
async fn a_broken_stream_ends_all_that_is_on_it() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let client = Connection::over(near, Side::Client, Config::new("client"));
    let opened = tokio::spawn({
        let client = client.clone();
        async move { client.opened().await.cloned() }
    });
    drop(far);
    assert!(opened.await.unwrap().is_err());
    assert!(matches!(
        client.closed().await,
        ConnectionError::Lost | ConnectionError::Io(_)
    ));
}

/// Handles may outlive the runtime that drives their connection.
#[test]
fn a_runtime_that_ends_ends_its_connections() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let (client, sender) = first.block_on(async {
        let (client, listener) = connections();
        let (ours, theirs) = sessions(&client, &listener).await;
        let (sender, _receiver) = link(&ours, &theirs, CreditMode::Exact(0)).await;
        (client, sender)
    });
    drop(first);
    runtime().block_on(async {
        let error = timeout(LIMIT, client.closed()).await.unwrap();
        assert!(matches!(error, ConnectionError::Lost), "{error}");
        let sent = timeout(LIMIT, sender.send(message("m"))).await.unwrap();
        assert!(matches!(sent, Err(DeliveryError::NotTransferred(_))));
    });
}

/// Case B20: a peer that is silent for longer than the idle time-out is given up.
#[tokio::test(start_paused = true)]
async fn b20_a_silent_peer_is_noticed() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let mut config = Config::new("client");
    config.idle_timeout = Some(Duration::from_secs(60));
    let client = Connection::over(near, Side::Client, config);
    let mut quiet = Config::new("listener");
    quiet.idle_timeout = None;
    let (far, stop) = stoppable(far);
    let listener = Connection::over(far, Side::Listener, quiet);
    exchange(&client, &listener).await;
    // Both live for an hour without a message: the heartbeats of both sides are enough.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(client.error().is_none() && listener.error().is_none());
    stop.send(()).unwrap();
    let before = tokio::time::Instant::now();
    let error = client.closed().await;
    assert!(matches!(error, ConnectionError::IdleTimeout), "{error}");
    assert!(before.elapsed() <= Duration::from_secs(60));
}

/// A peer that has stopped answering does not hold up those who wait on a link that is being detached.
#[tokio::test(start_paused = true)]
async fn a_detach_that_is_never_answered_frees_all_who_wait() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let mut patient = Config::new("client");
    patient.idle_timeout = None;
    let client = Connection::over(near, Side::Client, patient);
    let (far, stop) = stoppable(far);
    let listener = Connection::over(far, Side::Listener, Config::new("listener"));
    let (ours, theirs) = sessions(&client, &listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Exact(1)).await;
    let transferred = sender.queue(message("a")).await.unwrap();
    let waiting = sender.queue(message("b")).await.unwrap();
    receiver.recv().await.unwrap();
    stop.send(()).unwrap();
    tokio::task::yield_now().await;
    let before = tokio::time::Instant::now();
    let error = sender
        .detach(servicebus_amqp::engine::DetachMode::Close, None)
        .await;
    assert!(matches!(error, LinkError::NoAnswer), "{error}");
    assert!(before.elapsed() <= Duration::from_secs(5));
    assert!(matches!(
        transferred.await,
        Err(DeliveryError::Uncertain(LinkError::NoAnswer))
    ));
    assert!(matches!(
        waiting.await,
        Err(DeliveryError::NotTransferred(LinkError::NoAnswer))
    ));
}

/// A peer that attaches and detaches again and again must not fill the queue of those that wait to be accepted.
#[tokio::test(start_paused = true)]
async fn a_link_that_the_peer_takes_back_is_not_accepted() {
    let (client, listener) = connections();
    let (ours, theirs) = sessions(&client, &listener).await;
    for name in ["one", "two"] {
        let options = LinkOptions::new(Source::new("here"), Target::new("there"));
        let error = ours
            .attach_sender(name, options, Duration::from_secs(1))
            .await
            .unwrap_err();
        assert!(matches!(error, LinkError::NoAnswer), "{error}");
    }
    // Virtual time, which passes once both sides have nothing to do.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_sender, receiver) = link(&ours, &theirs, CreditMode::Exact(1)).await;
    assert_eq!(receiver.peer_attach().unwrap().name, "link");
}

/// What nobody accepts, as in most clients, does not pile up without end.
#[tokio::test(start_paused = true)]
async fn links_beyond_those_that_may_wait_are_refused() {
    let (client, listener) = connections();
    let (ours, _theirs) = sessions(&client, &listener).await;
    let attaches = (0..1025).map(|number| {
        let options = LinkOptions::new(Source::new("here"), Target::new("there"));
        ours.attach_sender(number.to_string(), options, LIMIT)
    });
    let results = futures_util::future::join_all(attaches).await;
    let refused = results
        .iter()
        .filter(|result| {
            matches!(
                result,
                Err(LinkError::DetachedByPeer { error: Some(_), .. })
            )
        })
        .count();
    assert_eq!(refused, 1);
}

/// The peer gets an answer, and need not wait for its time-out.
#[tokio::test]
async fn a_link_whose_answer_cannot_be_sent_is_refused() {
    let mut small = Config::new("client");
    small.max_frame_size = 512;
    let (client, listener) = connections_with(small, Config::new("listener"));
    let (ours, theirs) = sessions(&client, &listener).await;
    let options = LinkOptions::new(Source::new("here"), Target::new("there"));
    let (attached, accepted) = tokio::join!(ours.attach_sender("link", options, LIMIT), async {
        let incoming = theirs.accept().await.unwrap();
        let mut answer = LinkOptions::answer(incoming.attach());
        answer.properties = Some(Map::new().with("k", "x".repeat(600)));
        incoming.accept(answer)
    });
    let error = accepted.unwrap_err();
    assert!(
        matches!(
            error,
            LinkError::Refused(RequestError::FrameTooLarge {
                max_frame_size: 512
            })
        ),
        "{error}"
    );
    let error = attached.unwrap_err();
    assert!(
        matches!(error, LinkError::DetachedByPeer { error: Some(_), .. }),
        "{error}"
    );
}

/// A stream through a relay that can be stopped without closing anything, as a firewall drops a flow.
fn stoppable(mut stream: DuplexStream) -> (DuplexStream, oneshot::Sender<()>) {
    let (near, mut far) = tokio::io::duplex(64 * 1024);
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut stream, &mut far) => {}
            _ = stopped => {}
        }
        std::future::pending::<()>().await;
    });
    (near, stop)
}
