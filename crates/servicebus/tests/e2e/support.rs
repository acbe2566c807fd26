//! A client of an emulator in memory whose clock the test holds.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use servicebus::{
    Client, ClientOptions, Connect, Connecting, LockedMessage, Message, Receiver, RetryOptions,
    SettleError,
};
use servicebus_amqp::engine::{Config, Side};
use servicebus_amqp::net::Connection;
use servicebus_emulator::broker::{QueueOptions, SubscriptionOptions, TopicOptions};
use servicebus_emulator::{Answered, Builder, Clock, Emulator, Entity, Failure, Fault, Profile};

/// How long a test waits for what should come at once: virtual time, which passes only when there is nothing else to do.
const SOON: Duration = Duration::from_secs(10);

/// A namespace with nothing in it yet, and a client of it.
pub(crate) struct World {
    pub(crate) emulator: Arc<Emulator>,
    pub(crate) client: Client,
}

/// Connects in memory.
pub(crate) struct InMemory(pub(crate) Arc<Emulator>);

impl Connect for InMemory {
    fn connect(&self, config: Config) -> Connecting<'_> {
        Box::pin(async {
            let connection = Connection::over(self.0.connect(), Side::Client, config);
            connection.opened().await?;
            Ok(connection)
        })
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InMemory")
    }
}

/// Retries that cost a test no time.
pub(crate) fn impatient() -> ClientOptions {
    let retry = RetryOptions::default()
        .delay(Duration::from_millis(1))
        .busy_wait(Duration::from_millis(20))
        .try_timeout(Duration::from_secs(2));
    ClientOptions::new().retry(retry)
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(impatient()).await
    }

    pub(crate) async fn with(options: ClientOptions) -> Self {
        Self::start(builder(system_time()), options).await
    }

    /// With the limits of the Standard tier.
    pub(crate) async fn standard() -> Self {
        let builder = builder(system_time()).profile(Profile::Standard);
        Self::start(builder, impatient()).await
    }

    /// With a record of the frames.
    pub(crate) async fn with_frames() -> Self {
        Self::start(builder(system_time()).frame_log(), impatient()).await
    }

    /// With the emulator's clock at another time than the client's.
    pub(crate) async fn starting_at(start: SystemTime, retry: RetryOptions) -> Self {
        Self::start(builder(start), impatient().retry(retry)).await
    }

    async fn start(builder: Builder, options: ClientOptions) -> Self {
        let emulator = Arc::new(builder.start().await.unwrap());
        let client = client(&emulator, options);
        Self { emulator, client }
    }

    pub(crate) fn order(&self, fault: Fault) {
        self.emulator.default_namespace().order(fault).unwrap();
    }

    /// All links of an entity are detached.
    pub(crate) fn detach(&self, entity: &str, error: Failure) {
        self.order(Fault::Detach {
            entity: entity.to_owned(),
            error,
        });
    }

    /// How many frames of a kind came from clients.
    pub(crate) fn count_frames(&self, kind: &str) -> usize {
        let frames = self.emulator.frames();
        let of_kind = |line: &&str| line.contains("<-") && line.contains(kind);
        frames.lines().filter(of_kind).count()
    }

    pub(crate) async fn no_connections(&self) {
        no_connections(&self.emulator).await;
    }

    /// Time passes for both, second by second; for tests that hold tokio's clock.
    pub(crate) async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            tokio::time::advance(secs(1)).await;
            settle().await;
            self.advance(secs(1)).await;
            settle().await;
        }
    }

    pub(crate) fn queue(&self, name: &str) -> Entity {
        self.queue_with(name, QueueOptions::default())
    }

    pub(crate) fn queue_with(&self, name: &str, options: QueueOptions) -> Entity {
        let namespace = self.emulator.default_namespace();
        namespace.create_queue(name, options).unwrap()
    }

    /// A queue whose locks last for this long.
    pub(crate) fn queue_with_locks(&self, name: &str, lock: Duration) -> Entity {
        let options = QueueOptions {
            lock_duration: lock,
            ..QueueOptions::default()
        };
        self.queue_with(name, options)
    }

    pub(crate) fn session_queue(&self, name: &str) -> Entity {
        let options = QueueOptions {
            requires_session: true,
            ..QueueOptions::default()
        };
        self.queue_with(name, options)
    }

    pub(crate) fn topic(&self, name: &str, subscriptions: &[&str]) {
        let namespace = self.emulator.default_namespace();
        namespace
            .create_topic(name, TopicOptions::default())
            .unwrap();
        for subscription in subscriptions {
            namespace
                .create_subscription(name, subscription, SubscriptionOptions::default())
                .unwrap();
        }
    }

    pub(crate) fn entity(&self, path: &str) -> Entity {
        self.emulator.default_namespace().entity(path)
    }

    pub(crate) async fn send(&self, queue: &str, texts: &[&str]) {
        let sender = self.client.sender(queue);
        for text in texts {
            sender
                .send(Message::from((*text).to_owned()))
                .await
                .unwrap();
        }
    }

    /// Completes the only message of a queue. That takes effect, and the answer is lost with the connection.
    pub(crate) async fn complete_without_answer(
        &self,
        queue: &Entity,
        message: LockedMessage,
    ) -> SettleError {
        self.order(lost_answers(Answered::Settle, true, 1));
        let settling = tokio::spawn(message.complete());
        soon(queue.wait_until(|now| now.messages.is_empty(), secs(5)))
            .await
            .unwrap();
        self.order(Fault::Drop { connection: None });
        soon(settling).await.unwrap().unwrap_err()
    }

    pub(crate) async fn advance(&self, by: Duration) {
        self.emulator.advance(by).await.unwrap();
    }

    /// Another client of the same namespace.
    pub(crate) fn another_client(&self) -> Client {
        client(&self.emulator, impatient())
    }
}

/// The next answers of the queue `q` are lost.
pub(crate) fn lost_answers(operation: Answered, applied: bool, times: u32) -> Fault {
    Fault::LoseAnswer {
        entity: "q".into(),
        operation,
        applied,
        times,
    }
}

pub(crate) fn client(emulator: &Arc<Emulator>, options: ClientOptions) -> Client {
    let connector: Arc<dyn Connect> = Arc::new(InMemory(Arc::clone(emulator)));
    let options = options.connector(connector);
    Client::from_connection_string_with(&emulator.connection_string(), options).unwrap()
}

/// Waits until all clients are gone.
pub(crate) async fn no_connections(emulator: &Emulator) {
    while !emulator.connections().is_empty() {
        tokio::time::sleep(millis(1)).await;
    }
}

fn builder(start: SystemTime) -> Builder {
    Emulator::builder()
        .in_memory()
        .clock(Clock::manual(start))
        .strict()
}

/// Lets everything happen that is due.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// What should come at once.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what)
        .await
        .expect("it should have come at once")
}

/// Receives a message that is there, and completes it.
pub(crate) async fn complete_next(receiver: &Receiver) {
    let message = soon(receiver.receive()).await.unwrap();
    message.complete().await.unwrap();
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The system's time, in whole milliseconds as on the wire.
pub(crate) fn system_time() -> SystemTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap())
}

/// The bodies of messages as texts.
pub(crate) fn texts<M: AsRef<servicebus::ReceivedMessage>>(messages: &[M]) -> Vec<String> {
    let text = |message: &M| message.as_ref().text().unwrap_or_default().to_string();
    messages.iter().map(text).collect()
}

/// A runtime of one thread whose clock only goes on when there is nothing else to do.
pub(crate) fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}
