//! Many of everything in one process (B116), and the ways to connect.

use std::time::Duration;

use crate::common::*;
use servicebus_amqp::engine::{Config, Credentials, Sasl, SessionOptions};
use servicebus_amqp::net::{ConnectOptions, Connection, TlsOptions, Transport};
use servicebus_amqp::types::Value;
use servicebus_emulator::broker::QueueOptions;
use servicebus_emulator::{Emulator, Entity};

fn config() -> Config {
    let mut config = Config::new("test");
    config.sasl = Sasl::Client(vec![Credentials::Anonymous]);
    config
}

/// Emulators side by side, each with its port, its entities and its end.
#[tokio::test(flavor = "multi_thread")]
async fn b116_a_hundred_emulators_do_not_interact() {
    let mut tasks = Vec::new();
    for number in 0..100 {
        tasks.push(tokio::spawn(async move {
            let emulator = Emulator::start().await.unwrap();
            let queue = emulator
                .default_namespace()
                .create_queue("q1", QueueOptions::default())
                .unwrap();
            let client = Client::connect(&emulator).await;
            let sender = client.sender("q1").await;
            for _ in 0..number % 7 {
                send(&sender, &message("1")).await;
            }
            assert_eq!(queue.counts().unwrap().active, number % 7);
            emulator
        }));
    }
    let mut ports = std::collections::HashSet::new();
    for task in tasks {
        let emulator = task.await.unwrap();
        assert!(ports.insert(emulator.local_addr().unwrap()));
    }
}

#[tokio::test]
async fn b116_start_and_stop_a_hundred_times() {
    let mut address: Option<std::net::SocketAddr> = None;
    for _ in 0..100 {
        let mut builder = Emulator::builder();
        if let Some(address) = address {
            // The port is free again.
            builder = builder.listen(address);
        }
        let emulator = builder.start().await.unwrap();
        address = emulator.local_addr();
        let client = Client::connect(&emulator).await;
        emulator.stop().await;
        within(client.connection.closed()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b116_two_hundred_connections_of_five_links() {
    let emulator = Emulator::builder().in_memory().start().await.unwrap();
    let queue = emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let mut clients = Vec::new();
    for _ in 0..200 {
        let client = Client::connect(&emulator).await;
        let mut receivers = Vec::new();
        for _ in 0..4 {
            receivers.push(client.receiver("q1", 1).await);
        }
        let sender = client.sender("q1").await;
        clients.push((client, sender, receivers));
    }
    for (_, sender, _) in &clients {
        for _ in 0..4 {
            send(sender, &message("1")).await;
        }
    }
    for (_, _, receivers) in &clients {
        for receiver in receivers {
            let delivery = within(receiver.recv()).await.unwrap();
            complete(receiver, &delivery).await;
        }
    }
    assert_eq!(queue.counts().unwrap().active, 0);
}

#[tokio::test]
async fn b116_ten_thousand_sessions() {
    let emulator = emulator().await;
    let options = QueueOptions {
        requires_session: true,
        ..QueueOptions::default()
    };
    let queue = emulator
        .default_namespace()
        .create_queue("q1", options)
        .unwrap();
    for number in 0..10_000 {
        queue
            .inject(&session_message(&number.to_string(), "1"))
            .unwrap();
    }
    let client = Client::connect(&emulator).await;
    for number in 0..10_000 {
        let receiver = client
            .attach_receiver(session_filter("q1", Value::Null, 1))
            .await
            .unwrap();
        let delivery = within(receiver.recv()).await.unwrap();
        let session = decode(&delivery).properties.unwrap().group_id.unwrap();
        assert_eq!(session, number.to_string());
        complete(&receiver, &delivery).await;
        receiver.detach(Default::default(), None).await;
    }
    assert_eq!(queue.counts().unwrap().active, 0);
}

async fn works(connection: Connection, queue: &Entity) {
    let session = connection.begin(SessionOptions::default()).await.unwrap();
    let client = Client {
        connection,
        session,
    };
    let before = queue.counts().unwrap().active;
    send(&client.sender("q1").await, &message("1")).await;
    assert_eq!(queue.counts().unwrap().active, before + 1);
}

/// One port: plain, TLS, WebSocket, WebSocket over TLS.
#[tokio::test]
async fn one_port_serves_every_transport() {
    let emulator = Emulator::builder().tls().start().await.unwrap();
    let queue = emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let address = emulator.local_addr().unwrap();
    let trust = TlsOptions::default()
        .add_root_pem(emulator.ca_pem().unwrap().as_bytes())
        .unwrap();
    for transport in [
        Transport::Tcp,
        Transport::Tls,
        Transport::WebSocket,
        Transport::SecureWebSocket,
    ] {
        let options = ConnectOptions::new(transport).with_tls(trust.clone());
        let connection = Connection::connect("localhost", address.port(), &options, config())
            .await
            .unwrap_or_else(|error| panic!("{transport:?}: {error}"));
        works(connection, &queue).await;
    }
    let text = emulator.connection_string();
    assert_eq!(
        text,
        format!(
            "Endpoint=sb://{address};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;\
             UseDevelopmentEmulator=true;"
        )
    );
}

/// The emulator's clock is its own: tokio's may be paused, and run ahead, without a lock running out.
#[tokio::test(start_paused = true)]
async fn a_paused_runtime_does_not_move_the_clock() {
    let emulator = Emulator::builder().in_memory().start().await.unwrap();
    let options = QueueOptions {
        lock_duration: secs(30),
        ..QueueOptions::default()
    };
    emulator
        .default_namespace()
        .create_queue("q1", options)
        .unwrap();
    let client = Client::connect(&emulator).await;
    send(&client.sender("q1").await, &message("1")).await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = receiver.recv().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    complete(&receiver, &delivery).await;
}

#[tokio::test]
async fn the_system_clock_runs_locks_out() {
    let emulator = Emulator::builder().in_memory().start().await.unwrap();
    let options = QueueOptions {
        lock_duration: Duration::from_millis(50),
        ..QueueOptions::default()
    };
    emulator
        .default_namespace()
        .create_queue("q1", options)
        .unwrap();
    let client = Client::connect(&emulator).await;
    send(&client.sender("q1").await, &message("1")).await;
    let receiver = client.receiver("q1", 2).await;
    within(receiver.recv()).await.unwrap();
    let again = within(receiver.recv()).await.unwrap();
    assert_eq!(delivery_count(&again), 1);
    assert!(emulator.advance(secs(1)).await.is_err());
}

#[tokio::test]
async fn the_frame_log_can_be_read() {
    let emulator = Emulator::builder()
        .in_memory()
        .frame_log()
        .start()
        .await
        .unwrap();
    emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    send(&client.sender("q1").await, &message("1")).await;
    let frames = emulator.frames();
    for expected in [
        "#1 <- header AMQP 3 1.0.0\n",
        "#1 -> [0] Open(",
        "#1 <- [0] Attach(",
        "#1 -> [0] Disposition(",
    ] {
        assert!(frames.contains(expected), "no {expected:?} in\n{frames}");
    }
}

#[tokio::test]
#[should_panic(expected = "clients broke the protocol:\nconnection 1: ")]
async fn strict_mode_fails_the_test_of_a_wrong_client() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let emulator = emulator().await;
    let mut stream = emulator.connect();
    // A header, an open with a container id, and then an attach on a session that was never begun.
    stream.write_all(b"AMQP\x00\x01\x00\x00").await.unwrap();
    stream
        .write_all(b"\x00\x00\x00\x11\x02\x00\x00\x00\x00\x53\x10\xc0\x04\x01\xa1\x01c")
        .await
        .unwrap();
    stream
        .write_all(b"\x00\x00\x00\x16\x02\x00\x00\x00\x00\x53\x12\xc0\x09\x03\xa1\x01l\x43\x42\x40\x40\x40")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = within(stream.read_to_end(&mut answer)).await;
}
