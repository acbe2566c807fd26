//! Links: where addresses lead, what replies say, how refusals look.

use crate::common::*;
use servicebus_amqp::engine::{
    Config, ConnectionError, Credentials, LinkOptions, Sasl, SessionOptions, Side,
};
use servicebus_amqp::net::Connection;
use servicebus_amqp::types::{
    ReceiverSettleMode, SaslCode, SenderSettleMode, Source, Target, Value,
};
use servicebus_emulator::broker::{QueueOptions, Status, SubscriptionOptions, TopicOptions};
use servicebus_emulator::{Clock, Emulator, Profile, Rights};

async fn entities() -> Emulator {
    let emulator = emulator().await;
    let namespace = emulator.default_namespace();
    namespace
        .create_queue("q", QueueOptions::default())
        .unwrap();
    namespace
        .create_topic("topic", TopicOptions::default())
        .unwrap();
    namespace
        .create_subscription("topic", "S", SubscriptionOptions::default())
        .unwrap();
    let sessions = QueueOptions {
        requires_session: true,
        ..QueueOptions::default()
    };
    namespace.create_queue("sessions", sessions).unwrap();
    emulator
}

/// B114
#[tokio::test]
async fn b114_addresses_come_in_many_spellings() {
    let emulator = entities().await;
    let client = Client::connect(&emulator).await;
    let queue = emulator.default_namespace().entity("q");
    for (sent, address) in [
        "q",
        "/q",
        "Q",
        "amqps://localhost:5671/q",
        "sb://ns.servicebus.windows.net/q/",
    ]
    .iter()
    .enumerate()
    {
        send(&client.sender(address).await, &message(address)).await;
        assert_eq!(queue.counts().unwrap().active, sent + 1, "{address}");
    }
    for address in [
        "topic/Subscriptions/S",
        "topic/subscriptions/s",
        "q/$DeadLetterQueue",
        "q/$deadletterqueue",
        "q/$Transfer/$DeadLetterQueue",
    ] {
        let receiver = client.receiver(address, 0).await;
        // In the spelling of the client, which Python compares.
        let source = receiver.peer_attach().unwrap().source.clone().unwrap();
        assert_eq!(source.address.unwrap(), *address);
    }
    assert_eq!(
        emulator.default_namespace().entities().len(),
        3 + 1 + 3 + 3,
        "nothing was created on the way"
    );
}

/// B114
#[tokio::test]
async fn b114_an_unknown_entity_is_not_found() {
    let emulator = entities().await;
    let client = Client::connect(&emulator).await;
    let refused = link_error(client.try_sender("nope").await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:not-found");
    // JavaScript and Java look for this sentence.
    let text = refused.description.unwrap();
    assert!(
        text.starts_with("The messaging entity '") && text.contains("nope' could not be found"),
        "{text}"
    );
    assert!(text.contains(" TrackingId:"), "{text}");
    let refused = link_error(client.try_receiver("nope", 1).await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:not-found");
    let refused = link_error(client.try_sender("nope/$management").await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:not-found");
}

#[tokio::test]
async fn links_that_make_no_sense_are_refused() {
    let emulator = entities().await;
    let client = Client::connect(&emulator).await;
    for address in ["topic/subscriptions/s", "q/$deadletterqueue"] {
        let refused = link_error(client.try_sender(address).await.unwrap_err());
        assert_eq!(refused.condition, *"amqp:not-allowed", "{address}");
    }
    let refused = link_error(client.try_receiver("topic", 1).await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:not-allowed");
    let refused = link_error(client.try_receiver("sessions", 1).await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:not-allowed");
    let text = refused.description.unwrap();
    assert!(
        text.starts_with(
            "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
        ),
        "{text}"
    );
    let options = session_filter("q", "a", 1);
    let refused = link_error(client.attach_receiver(options).await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:not-allowed");
    let options = session_filter("sessions", 7, 1);
    let refused = link_error(client.attach_receiver(options).await.unwrap_err());
    assert_eq!(refused.condition, *"com.microsoft:argument-error");
    let without_address = LinkOptions::new(Source::default(), Target::new("client"));
    let refused = link_error(client.attach_receiver(without_address).await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:invalid-field");
}

#[tokio::test]
async fn a_disabled_entity_takes_no_links() {
    let emulator = emulator().await;
    let disabled = QueueOptions {
        status: Status::Disabled,
        ..QueueOptions::default()
    };
    emulator
        .default_namespace()
        .create_queue("q", disabled)
        .unwrap();
    let client = Client::connect(&emulator).await;
    let refused = link_error(client.try_sender("q").await.unwrap_err());
    assert_eq!(refused.condition, *"com.microsoft:entity-disabled");
    let refused = link_error(client.try_receiver("q", 1).await.unwrap_err());
    assert_eq!(refused.condition, *"com.microsoft:entity-disabled");
}

/// Clients size their messages and batches by the reply. A sender that asks for settle mode second is answered first, or
/// Python's send waits for ever.
#[tokio::test]
async fn a_sender_is_told_its_terms() {
    let start = std::time::UNIX_EPOCH + std::time::Duration::from_millis(START_MILLIS as u64);
    let emulator = Emulator::builder()
        .in_memory()
        .clock(Clock::manual(start))
        .profile(Profile::Standard)
        .start()
        .await
        .unwrap();
    emulator
        .default_namespace()
        .create_queue("q", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let mut options = LinkOptions::new(Source::new("client"), Target::new("q"));
    options.snd_settle_mode = SenderSettleMode::Unsettled;
    options.rcv_settle_mode = ReceiverSettleMode::Second;
    let sender = client
        .session
        .attach_sender("sender", options, SOON)
        .await
        .unwrap();
    let reply = sender.peer_attach().unwrap();
    assert_eq!(reply.snd_settle_mode, SenderSettleMode::Unsettled);
    assert_eq!(reply.rcv_settle_mode, ReceiverSettleMode::First);
    assert_eq!(reply.max_message_size, Some(262_144));
    let properties = reply.properties.as_ref().unwrap();
    assert_eq!(
        properties.get("com.microsoft:max-message-batch-size"),
        Some(&Value::Long(262_144))
    );
    assert_eq!(within(sender.credit()).await.unwrap(), 1000);

    let large = message(&"x".repeat(262_145));
    let delivery = servicebus_amqp::engine::OutgoingDelivery::new(encode(&large));
    assert!(sender.send(delivery).await.is_err());
}

#[tokio::test]
async fn a_receiver_is_told_its_modes() {
    let emulator = entities().await;
    let client = Client::connect(&emulator).await;
    let receiver = client.receiver("q", 0).await;
    let reply = receiver.peer_attach().unwrap();
    assert_eq!(reply.snd_settle_mode, SenderSettleMode::Unsettled);
    assert_eq!(reply.rcv_settle_mode, ReceiverSettleMode::Second);
    assert_eq!(reply.initial_delivery_count, Some(0));
    let receiver = client
        .attach_receiver(receive_and_delete("q", 0))
        .await
        .unwrap();
    let reply = receiver.peer_attach().unwrap();
    assert_eq!(reply.snd_settle_mode, SenderSettleMode::Settled);
    assert_eq!(reply.rcv_settle_mode, ReceiverSettleMode::First);
}

fn with(credentials: Vec<Credentials>) -> Config {
    let mut config = Config::new("test");
    config.sasl = Sasl::Client(credentials);
    config
}

fn plain(password: &str) -> Credentials {
    Credentials::Plain {
        username: "sender".into(),
        password: password.into(),
    }
}

/// B24
#[tokio::test]
async fn b24_every_mechanism_of_clients_is_offered() {
    let emulator = Emulator::builder()
        .in_memory()
        .key("sender", "secret", Rights::Send)
        .start()
        .await
        .unwrap();
    for credentials in [
        Credentials::Mssbcbs,
        Credentials::Anonymous,
        Credentials::External,
        plain("secret"),
    ] {
        let name = credentials.mechanism();
        let config = with(vec![credentials]);
        let connection = Connection::over(emulator.connect(), Side::Client, config);
        assert!(within(connection.opened()).await.is_ok(), "{name}");
    }
}

/// B24
#[tokio::test]
async fn b24_a_wrong_password_ends_the_connection() {
    let emulator = Emulator::builder()
        .in_memory()
        .key("sender", "secret", Rights::Send)
        .start()
        .await
        .unwrap();
    let config = with(vec![plain("guess")]);
    let connection = Connection::over(emulator.connect(), Side::Client, config);
    match within(connection.opened()).await {
        Err(ConnectionError::Authentication(SaslCode::Auth)) => {}
        other => panic!("{other:?}"),
    }
}

/// A key's name and text give its rights without a token.
#[tokio::test]
async fn plain_gives_the_rights_of_the_key() {
    let emulator = Emulator::builder()
        .in_memory()
        .key("sender", "secret", Rights::Send)
        .start()
        .await
        .unwrap();
    emulator
        .default_namespace()
        .create_queue("q", QueueOptions::default())
        .unwrap();
    let client = Client::connect_with(&emulator, with(vec![plain("secret")])).await;
    send(&client.sender("q").await, &message("hello")).await;
    let refused = link_error(client.try_receiver("q", 1).await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:unauthorized-access");
    let text = refused.description.unwrap();
    assert!(
        text.starts_with("Unauthorized access. 'Listen' claim(s) are required"),
        "{text}"
    );
}

/// Sessions and handles of clients begin anywhere.
#[tokio::test]
async fn many_sessions_on_one_connection() {
    let emulator = entities().await;
    let client = Client::connect(&emulator).await;
    let mut sessions = Vec::new();
    for number in 0..20 {
        let session = client
            .connection
            .begin(SessionOptions::default())
            .await
            .unwrap();
        let options = LinkOptions::new(Source::new("client"), Target::new("q"));
        let sender = session
            .attach_sender(unique("sender"), options, SOON)
            .await
            .unwrap();
        send(&sender, &message(&number.to_string())).await;
        sessions.push((session, sender));
    }
    let counts = emulator.default_namespace().entity("q").counts();
    assert_eq!(counts.unwrap().active, 20);
}
