//! `servicebus-bench memory`: what connections and links cost when nothing happens on them.
//!
//! Client and listener run in this process over loopback TCP. Memory is what the allocator has handed out, so it is
//! exact; each figure is for one side, the task and its buffers included.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use servicebus_amqp::engine::{
    Config, CreditMode, LinkOptions, OutgoingDelivery, SessionOptions, Side,
};
use servicebus_amqp::net::{AcceptedLink, Connection, ReceiverLink, SenderLink, Session};
use servicebus_amqp::types::{Body, DeliveryState, Message, Source, Target};
use tokio::net::{TcpListener, TcpStream};

use crate::measure::{progress, thread_cpu_time};
use crate::record::Record;
use crate::table::{Table, figure, thousands};

const CONNECTIONS: usize = 100;
const LINKS: usize = 10_000;
const IDLE: Duration = Duration::from_secs(5);
const ATTACH_LIMIT: Duration = Duration::from_secs(10);

/// A case, with the one figure that it has.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    peer: String,
    case: String,
    /// Heap of one side, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// CPU time of both sides of one connection, in microseconds per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_us_per_s: Option<f64>,
}

pub(crate) fn measure() -> anyhow::Result<Vec<Record>> {
    progress("memory");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // The first connection pays for what the program sets up once.
    drop(runtime.block_on(Pair::connect())?);

    let (pairs, bytes) = heap_of(|| {
        runtime.block_on(async {
            let mut pairs = Vec::with_capacity(CONNECTIONS);
            for _ in 0..CONNECTIONS {
                let pair = Pair::connect().await?;
                let links = pair.links().await?;
                links.exchange().await?;
                pairs.push((pair, links));
            }
            anyhow::Ok(pairs)
        })
    })?;
    let connection = bytes / (2 * CONNECTIONS) as u64;

    let start = thread_cpu_time();
    runtime.block_on(async { tokio::time::sleep(IDLE).await });
    let idle =
        (thread_cpu_time() - start).as_secs_f64() * 1e6 / IDLE.as_secs_f64() / CONNECTIONS as f64;
    drop(pairs);

    let pair = runtime.block_on(Pair::connect())?;
    let (links, bytes) = heap_of(|| {
        runtime.block_on(async {
            let mut links = Vec::with_capacity(LINKS);
            for number in 0..LINKS {
                links.push(pair.sender(number).await?);
            }
            anyhow::Ok(links)
        })
    })?;
    drop(links);
    let link = bytes / (2 * LINKS) as u64;

    progress("");
    let line = |case: &str, bytes, cpu_us_per_s| {
        Record::Memory(Line {
            peer: "servicebus-amqp".to_owned(),
            case: case.to_owned(),
            bytes,
            cpu_us_per_s,
        })
    };
    Ok(vec![
        line("connection", Some(connection), None),
        line("link", Some(link), None),
        line("idle", None, Some(idle)),
    ])
}

/// One table with what each case is about.
pub(crate) fn tables(lines: &[&Line]) -> String {
    let mut table = Table::new(["", "each side", "both sides"]);
    for line in lines {
        let about = match line.case.as_str() {
            "connection" => "a connection with a sender and a receiver, used once",
            "link" => "each of 10,000 links on a connection",
            "idle" => "a connection on which nothing happens",
            other => other,
        };
        let bytes = line
            .bytes
            .map(|bytes| format!("{} bytes", thousands(bytes as f64)));
        let cpu = line
            .cpu_us_per_s
            .map(|cpu| format!("{} µs of CPU per second", figure(cpu)));
        table.row([
            about.to_owned(),
            bytes.unwrap_or_default(),
            cpu.unwrap_or_default(),
        ]);
    }
    table.to_string()
}

/// What `make` returns, and the bytes of heap it left in use.
fn heap_of<T>(make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, u64)> {
    let mut result = None;
    let info = allocation_counter::measure(|| result = Some(make()));
    let made = result.context("nothing was made")??;
    Ok((made, info.bytes_current.try_into().unwrap_or_default()))
}

/// Both sides of a connection, with a session.
struct Pair {
    client: Session,
    listener: Session,
}

/// Both ends of a link in each direction.
struct Links {
    there: (SenderLink, ReceiverLink),
    back: (SenderLink, ReceiverLink),
}

impl Pair {
    async fn connect() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (client, accepted) = tokio::join!(
            TcpStream::connect(listener.local_addr()?),
            listener.accept()
        );
        let client = Connection::over(client?, Side::Client, Config::new("client"));
        let listener = Connection::over(accepted?.0, Side::Listener, Config::new("listener"));
        let (client, listener) =
            tokio::join!(client.begin(SessionOptions::default()), listener.accept());
        Ok(Self {
            client: client?,
            listener: listener?,
        })
    }

    async fn links(&self) -> anyhow::Result<Links> {
        let (receiver, sender) = tokio::join!(
            self.client.attach_receiver("back", options(), ATTACH_LIMIT),
            self.accept()
        );
        let AcceptedLink::Sender(sender) = sender? else {
            bail!("the link goes the wrong way");
        };
        Ok(Links {
            back: (sender, receiver?),
            there: self.sender(0).await?,
        })
    }

    /// A link on which the client sends.
    async fn sender(&self, number: usize) -> anyhow::Result<(SenderLink, ReceiverLink)> {
        let (sender, receiver) = tokio::join!(
            self.client
                .attach_sender(format!("link-{number}"), options(), ATTACH_LIMIT),
            self.accept()
        );
        let AcceptedLink::Receiver(receiver) = receiver? else {
            bail!("the link goes the wrong way");
        };
        Ok((sender?, receiver))
    }

    async fn accept(&self) -> anyhow::Result<AcceptedLink> {
        let incoming = self.listener.accept().await?;
        let mut options = LinkOptions::answer(incoming.attach());
        options.credit = CreditMode::Window(10);
        Ok(incoming.accept(options)?)
    }
}

impl Links {
    /// Sends a message in each direction, so that the buffers are those of a connection that was used.
    async fn exchange(&self) -> anyhow::Result<()> {
        let message = Message {
            body: Body::Data(Bytes::from(vec![b'x'; 1024])),
            ..Message::default()
        };
        for (sender, receiver) in [&self.there, &self.back] {
            let mut payload = BytesMut::new();
            message.encode(&mut payload)?;
            let outcome = sender
                .queue(OutgoingDelivery::new(payload.freeze()))
                .await?;
            let delivery = receiver.recv().await?;
            receiver.settle(delivery.delivery, DeliveryState::ACCEPTED)?;
            ensure!(
                outcome.await? == Some(DeliveryState::ACCEPTED),
                "not accepted"
            );
        }
        Ok(())
    }
}

fn options() -> LinkOptions {
    let mut options = LinkOptions::new(Source::new("bench"), Target::new("bench"));
    options.credit = CreditMode::Window(10);
    options
}
