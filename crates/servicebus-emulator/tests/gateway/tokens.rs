//! `$cbs`: who may attach, for how long, and in which namespace.

use crate::common::*;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use servicebus_amqp::types::{Map, MessageId, Uuid, Value};
use servicebus_emulator::broker::QueueOptions;
use servicebus_emulator::{Builder, Clock, Emulator, Rights, Verdict};

fn start() -> Clock {
    Clock::manual(std::time::UNIX_EPOCH + std::time::Duration::from_millis(START_MILLIS as u64))
}

async fn with_keys(builder: Builder) -> (Emulator, Client) {
    let emulator = builder
        .in_memory()
        .clock(start())
        .key("all", "top secret", Rights::Manage)
        .key("send", "half secret", Rights::Send)
        .start()
        .await
        .unwrap();
    for name in ["q1", "q2"] {
        emulator
            .default_namespace()
            .create_queue(name, QueueOptions::default())
            .unwrap();
    }
    let client = Client::connect(&emulator).await;
    (emulator, client)
}

/// A token as an SDK makes it.
fn sas(audience: &str, name: &str, key: &str, expires: i64) -> String {
    let encode = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let resource = encode(audience);
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(format!("{resource}\n{expires}").as_bytes());
    let signature = encode(&BASE64.encode(&mac.finalize().into_bytes()));
    format!("SharedAccessSignature sr={resource}&sig={signature}&se={expires}&skn={name}")
}

const IN_AN_HOUR: i64 = START_MILLIS / 1000 + 3600;

/// Puts a token as Python does: the wrong type, and an id that is a uuid.
async fn put(cbs: &Node, audience: &str, token: &str) -> Reply {
    let properties = Map::new()
        .with("operation", "put-token")
        .with("type", "jwt")
        .with("name", audience);
    let id = MessageId::Uuid(Uuid::new_v4());
    let reply = cbs.exchange(id, properties, token.into()).await;
    read_reply(
        reply,
        "status-code",
        "error-condition",
        "status-description",
    )
}

async fn condition(client: &Client, address: &str) -> String {
    let error = link_error(client.try_sender(address).await.unwrap_err());
    error.condition.as_str().to_owned()
}

#[tokio::test]
async fn a_link_needs_a_token_that_covers_it() {
    let (_emulator, client) = with_keys(Emulator::builder()).await;
    assert_eq!(condition(&client, "q1").await, "amqp:unauthorized-access");
    let cbs = client.node("$cbs").await;
    // Scheme, port and management node in the audience are of no account.
    let audience = "amqps://localhost:5671/Q1/$management";
    let reply = put(
        &cbs,
        audience,
        &sas(audience, "all", "top secret", IN_AN_HOUR),
    )
    .await;
    assert_eq!(reply.status, 202);
    client.sender("q1").await;
    client.receiver("q1/$deadletterqueue", 1).await;
    client.node("q1/$management").await;
    assert_eq!(condition(&client, "q2").await, "amqp:unauthorized-access");

    let audience = "sb://localhost/";
    put(
        &cbs,
        audience,
        &sas(audience, "all", "top secret", IN_AN_HOUR),
    )
    .await;
    client.sender("q2").await;
}

#[tokio::test]
async fn a_key_gives_its_rights_only() {
    let (_emulator, client) = with_keys(Emulator::builder()).await;
    let cbs = client.node("$cbs").await;
    let audience = "sb://localhost/q1";
    put(
        &cbs,
        audience,
        &sas(audience, "send", "half secret", IN_AN_HOUR),
    )
    .await;
    client.sender("q1").await;
    let refused = link_error(client.try_receiver("q1", 1).await.unwrap_err());
    assert_eq!(refused.condition, *"amqp:unauthorized-access");
    let management = client.node("q1/$management").await;
    let body = Map::new()
        .with("from-sequence-number", 0_i64)
        .with("message-count", 1);
    assert_eq!(management.call("peek-message", body).await.status, 401);
}

#[tokio::test]
async fn tokens_that_are_no_good_are_refused() {
    let (_emulator, client) = with_keys(Emulator::builder()).await;
    let cbs = client.node("$cbs").await;
    let audience = "sb://localhost/q1";
    for (token, status) in [
        (sas(audience, "all", "guess", IN_AN_HOUR), 401),
        (sas(audience, "nobody", "top secret", IN_AN_HOUR), 401),
        (sas(audience, "all", "top secret", START_MILLIS / 1000), 401),
        (
            sas("sb://localhost/q2", "all", "top secret", IN_AN_HOUR),
            401,
        ),
        ("SharedAccessSignature sr=x".into(), 400),
        ("eyJhbGciOi.a.b".into(), 401),
    ] {
        let reply = put(&cbs, audience, &token).await;
        assert_eq!(reply.status, status, "{token}");
        let expected = match status {
            400 => "amqp:invalid-field",
            _ => "amqp:unauthorized-access",
        };
        assert_eq!(reply.condition.unwrap(), *expected);
    }
    assert_eq!(condition(&client, "q1").await, "amqp:unauthorized-access");
}

#[tokio::test]
async fn a_token_that_runs_out_detaches_its_links() {
    let (emulator, client) = with_keys(Emulator::builder()).await;
    let cbs = client.node("$cbs").await;
    let audience = "sb://localhost/q1";
    put(
        &cbs,
        audience,
        &sas(audience, "all", "top secret", IN_AN_HOUR),
    )
    .await;
    let sender = client.sender("q1").await;
    let receiver = client.receiver("q1", 1).await;
    emulator.advance(secs(1800)).await.unwrap();
    // Renewed in time.
    let later = IN_AN_HOUR + 1800;
    put(&cbs, audience, &sas(audience, "all", "top secret", later)).await;
    emulator.advance(secs(3599)).await.unwrap();
    assert!(sender.error().is_none() && receiver.error().is_none());
    emulator.advance(secs(1)).await.unwrap();
    for error in [within(sender.ended()).await, within(receiver.ended()).await] {
        assert_eq!(link_error(error).condition, *"amqp:unauthorized-access");
    }
    // The link to $cbs stays, so that the client can go on.
    let reply = put(
        &cbs,
        audience,
        &sas(audience, "all", "top secret", later + 7200),
    )
    .await;
    assert_eq!(reply.status, 202);
    client.sender("q1").await;
}

#[tokio::test]
async fn a_hook_decides_about_web_tokens() {
    let builder = Emulator::builder().token_hook(|token| match token {
        "good" => Verdict::Accept,
        _ => Verdict::Refuse("The token is from another tenant.".into()),
    });
    let (_emulator, client) = with_keys(builder).await;
    let cbs = client.node("$cbs").await;
    let reply = put(&cbs, "sb://localhost/q1", "bad").await;
    assert_eq!(reply.status, 401);
    assert_eq!(reply.description, "The token is from another tenant.");
    assert_eq!(put(&cbs, "sb://localhost/q1", "good").await.status, 202);
    client.sender("q1").await;
}

/// Two tests with keys of their own see nothing of one another.
#[tokio::test]
async fn namespaces_are_apart() {
    let emulator = emulator().await;
    for name in ["test-1", "test-2"] {
        emulator
            .namespace(name)
            .create_queue("q1", QueueOptions::default())
            .unwrap();
    }
    let client = Client::connect(&emulator).await;
    let cbs = client.node("$cbs").await;
    let audience = "sb://localhost/q1";
    let token = sas(audience, "test-1", "SAS_KEY_VALUE", IN_AN_HOUR);
    assert_eq!(put(&cbs, audience, &token).await.status, 202);
    send(&client.sender("q1").await, &message("1")).await;
    let count = |name| {
        let queue = emulator.namespace(name).entity("q1");
        queue.counts().unwrap().active
    };
    assert_eq!((count("test-1"), count("test-2")), (1, 0));
    assert!(
        emulator
            .namespace("test-2")
            .connection_string()
            .contains(";SharedAccessKeyName=test-2;SharedAccessKey=SAS_KEY_VALUE;")
    );
    // One connection is in one namespace.
    let token = sas(audience, "test-2", "SAS_KEY_VALUE", IN_AN_HOUR);
    assert_eq!(put(&cbs, audience, &token).await.status, 403);
}

#[tokio::test]
async fn put_token_is_all_that_cbs_knows() {
    let emulator = emulator().await;
    let client = Client::connect(&emulator).await;
    let cbs = client.node("$cbs").await;
    let id = MessageId::String("1".into());
    let properties = Map::new().with("operation", "delete-token");
    let reply = cbs.exchange(id, properties, Value::Null).await;
    let reply = read_reply(
        reply,
        "status-code",
        "error-condition",
        "status-description",
    );
    assert_eq!(reply.status, 400);
}
