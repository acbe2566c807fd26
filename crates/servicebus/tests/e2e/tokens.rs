//! Authorising: connection strings, keys that change, tokens that end, and secrets that are not told.

use std::sync::atomic::Ordering;

use servicebus::{
    Client, ClientOptions, Connect, Error, ErrorKind, NamedKeyCredential, ProvideToken, Providing,
};
use servicebus_emulator::{Clock, Emulator, Fault, Rights, SaslFailure};

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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn a_refusal_of_sasl_is_an_error_of_the_operation_and_told_once() {
    let world = World::with_frames().await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    for (nth, code) in [SaslFailure::Auth, SaslFailure::Sys, SaslFailure::SysPerm]
        .into_iter()
        .enumerate()
    {
        let times = u32::MAX;
        world.order(Fault::RefuseSasl { code, times });
        let error = soon(world.client.sender("q").send("m")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        assert!(!error.is_transient());
        assert_eq!(world.count_frames("SaslInit"), 2 * nth + 1);
        let error = soon(receiver.receive()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        assert_eq!(world.count_frames("SaslInit"), 2 * nth + 2);
    }
    let code = SaslFailure::Auth;
    world.order(Fault::RefuseSasl { code, times: 0 });
    soon(world.client.sender("q").send("m")).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_sasl_that_may_pass_is_waited_out() {
    let world = World::with_frames().await;
    world.queue("q");
    let code = SaslFailure::SysTemp;
    world.order(Fault::RefuseSasl { code, times: 2 });
    soon(world.client.sender("q").send("m")).await.unwrap();
    assert_eq!(world.count_frames("SaslInit"), 3);

    let times = u32::MAX;
    world.order(Fault::Drop { connection: None });
    world.order(Fault::RefuseSasl { code, times });
    let error = soon(world.client.sender("q").send("m")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Communication, "{error}");
    assert!(error.is_transient());
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

#[tokio::test(start_paused = true)]
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

/// A credential that works, then does not for a while, then does again.
#[derive(Debug)]
struct Moody {
    key: NamedKeyCredential,
    fails: std::sync::atomic::AtomicBool,
    asked: std::sync::atomic::AtomicUsize,
}

#[derive(Clone, Debug)]
struct Shared(std::sync::Arc<Moody>);

impl ProvideToken for Shared {
    fn token<'a>(&'a self, audience: &'a str) -> Providing<'a> {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        if self.0.fails.load(Ordering::Relaxed) {
            let error = Error::new(ErrorKind::Unauthorized, "the identity service is away");
            return Box::pin(std::future::ready(Err(error)));
        }
        self.0.key.token(audience)
    }
}

/// One failed renewal is not the end of renewing: when the credential works again, so does the receiver.
#[tokio::test(start_paused = true)]
async fn b48_renewal_goes_on_after_failures() {
    let emulator = emulator_with_key("root", "key").await;
    create_queue(&emulator);
    let credential = Shared(std::sync::Arc::new(Moody {
        key: NamedKeyCredential::new("root", "key"),
        fails: false.into(),
        asked: 0.into(),
    }));
    let client =
        Client::with_credential("localhost", credential.clone(), options(&emulator)).unwrap();
    let world = World { emulator, client };
    let sender = world.client.sender("q");
    let receiver = world.client.receiver("q");
    sender.send("1").await.unwrap();
    complete_next(&receiver).await;
    let waiting = tokio::spawn(async move { receiver.receive().await.unwrap() });

    // The renewal is due after less than 20 minutes, and fails until after 25; the token ends after 30.
    credential.0.fails.store(true, Ordering::Relaxed);
    let before = credential.0.asked.load(Ordering::Relaxed);
    world.pass(secs(25 * 60)).await;
    let tried = credential.0.asked.load(Ordering::Relaxed) - before;
    assert!((6..40).contains(&tried), "{tried} attempts in five minutes");
    credential.0.fails.store(false, Ordering::Relaxed);
    world.pass(secs(20 * 60)).await;
    sender.send("2").await.unwrap();
    let message = soon(waiting).await.unwrap();
    assert_eq!(message.text().as_deref(), Some("2"));
    assert_eq!(world.emulator.connections().len(), 1);

    // It ends with the client.
    credential.0.fails.store(true, Ordering::Relaxed);
    world.pass(secs(20 * 60)).await;
    world.client.close().await;
    let at_the_end = credential.0.asked.load(Ordering::Relaxed);
    assert!(at_the_end > before + tried);
    world.pass(secs(10 * 60)).await;
    assert_eq!(credential.0.asked.load(Ordering::Relaxed), at_the_end);
}

/// What is traced while a client connects, works, fails and prints itself has no secret in it.
#[tokio::test(start_paused = true)]
async fn b54_secrets_are_not_told() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let emulator = emulator_with_key("root", "S3CRETKEY").await;
    create_queue(&emulator);
    let credential = NamedKeyCredential::new("root", "S3CRETKEY");
    let client = Client::with_credential("localhost", credential, options(&emulator)).unwrap();
    let sender = client.sender("q");
    soon(sender.send("S3CRETBODY")).await.unwrap();
    let receiver = client.receiver("q");
    let message = soon(receiver.receive()).await.unwrap();
    let printed = format!("{client:?} {sender:?} {receiver:?} {message:?}");
    soon(message.complete()).await.unwrap();
    let world = World { emulator, client };
    world.order(Fault::Drop { connection: None });
    world.order(Fault::RefuseOpen {
        condition: "amqp:internal-error".into(),
        description: "as ordered".into(),
        times: 1,
    });
    soon(sender.send("S3CRETBODY")).await.unwrap();
    // Its token is renewed.
    world.pass(secs(25 * 60)).await;
    let lines = log.0.lock().unwrap().join("\n");
    let authorised = lines.matches("authorised").count();
    assert!(authorised >= 3, "first, again and renewed: {lines}");
    for text in [&printed, &lines] {
        assert!(!text.contains("S3CRET"), "{text}");
        // The key in Base64.
        assert!(!text.contains("UzNDUkVUS0VZ"), "{text}");
        assert!(!text.contains("sig="), "{text}");
        assert!(!text.contains("SharedAccessSignature"), "{text}");
    }
}

/// Keeps what this thread traces, at every level.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let line = format!("{} {:?}", span.metadata().name(), span.values());
        self.0.lock().unwrap().push(line);
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        self.0.lock().unwrap().push(format!("{values:?}"));
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
