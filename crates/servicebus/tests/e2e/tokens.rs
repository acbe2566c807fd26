//! Authorising: connection strings, keys that change, tokens that end, and secrets that are not told.

use servicebus::{Client, ClientOptions, Connect, ErrorKind, NamedKeyCredential};
use servicebus_emulator::{Clock, Emulator, Rights};

use crate::support::*;

async fn emulator_with_key(name: &str, key: &str) -> std::sync::Arc<Emulator> {
    let emulator = Emulator::builder()
        .in_memory()
        .clock(Clock::manual(system_time()))
        .key(name, key, Rights::Manage)
        .start()
        .await
        .unwrap();
    std::sync::Arc::new(emulator)
}

fn options(emulator: &std::sync::Arc<Emulator>) -> ClientOptions {
    let connector: std::sync::Arc<dyn Connect> =
        std::sync::Arc::new(InMemory(std::sync::Arc::clone(emulator)));
    impatient().connector(connector)
}

fn create_queue(emulator: &Emulator) {
    let namespace = emulator.default_namespace();
    namespace
        .create_queue("q", servicebus_emulator::broker::QueueOptions::default())
        .unwrap();
}

#[tokio::test]
async fn a_wrong_key_is_an_error_of_the_operation_and_told_once() {
    let emulator = emulator_with_key("root", "right").await;
    create_queue(&emulator);
    let credential = NamedKeyCredential::new("root", "S3CRETKEY");
    let client =
        Client::with_credential("localhost", credential.clone(), options(&emulator)).unwrap();
    let error = soon(client.sender("q").send("m")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    let printed = format!("{error} {error:?} {client:?} {credential:?}");
    assert!(!printed.contains("S3CRETKEY"), "{printed}");

    // The key is exchanged while the client works.
    credential.update("root", "right");
    soon(client.sender("q").send("m")).await.unwrap();
}

/// B48, B51: tokens are put anew for as long as they are needed.
#[tokio::test(start_paused = true)]
async fn b51_tokens_are_renewed_for_hours() {
    let emulator = emulator_with_key("root", "key").await;
    create_queue(&emulator);
    let credential = NamedKeyCredential::new("root", "key");
    let client = Client::with_credential("localhost", credential, options(&emulator)).unwrap();
    let world = World { emulator, client };
    let sender = world.client.sender("q");
    let receiver = world.client.receiver("q");
    for _ in 0..14 {
        sender.send("m").await.unwrap();
        let message = soon(receiver.receive()).await.unwrap();
        soon(message.renew_lock()).await.unwrap();
        soon(message.complete()).await.unwrap();
        world.pass(secs(25 * 60)).await;
    }
    assert_eq!(world.emulator.connections().len(), 1);
}

#[tokio::test]
async fn b53_a_string_for_one_entity_is_good_for_that_one() {
    let world = World::new().await;
    world.queue("q");
    world.queue("other");
    let text = format!(
        "{};EntityPath=q",
        world.emulator.connection_string().trim_end_matches(';')
    );
    let client = Client::from_connection_string_with(&text, options(&world.emulator)).unwrap();
    soon(client.sender("q").send("m")).await.unwrap();
    let error = soon(client.sender("other").send("m")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn b53_a_bad_string_is_refused_without_being_repeated() {
    for text in [
        "",
        "Endpoint=sb://ns;SharedAccessKeyName=n",
        "Endpoint=sb://ns;SharedAccessKey=S3CRETKEY",
        "SharedAccessKeyName=n;SharedAccessKey=S3CRETKEY",
        "Endpoint=sb://ns",
        "S3CRETKEY",
    ] {
        let error = Client::from_connection_string(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        assert!(!format!("{error} {error:?}").contains("S3CRETKEY"));
    }
}

/// Making clients, senders and receivers does no I/O, and needs no runtime.
#[test]
fn nothing_is_done_before_it_is_needed() {
    let text = "Endpoint=sb://ns.servicebus.windows.net;SharedAccessKeyName=n;SharedAccessKey=k";
    let client = Client::from_connection_string(text).unwrap();
    let _sender = client.sender("q");
    let _receiver = client.receiver("q");
    assert_eq!(client.namespace(), "ns.servicebus.windows.net");
}
