//! `servicebus-bench emulator`: how soon it takes a message, what a message costs, and what it holds costs.
//!
//! But for the case *start*, the emulator is its program, in a process of its own; its CPU time and memory are read from
//! `/proc`. Whatever grows is measured at a tenth and in full, so that more than linear growth shows.

mod program;

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::{join_all, try_join_all};
use serde::{Deserialize, Serialize};
use servicebus::types::Bytes;
use servicebus::{Client, KeepLock, Message, SessionReceiverOptions};
use servicebus_emulator::Emulator;
use servicebus_emulator::broker::QueueOptions;

use crate::client::{BODY, Case, PER_SESSION, fill};
use crate::measure::{Report, cpu_time_of, median, progress, status_bytes_of};
use crate::process::Process;
use crate::record::Record;
use crate::role::name_of;
use crate::table::{Table, figure, mib, thousands};
pub(crate) use program::{Program, cargo};

const STARTS: usize = 11;
/// How many requests wait for answers where many things are set up.
const AT_ONCE: usize = 50;

#[derive(Args)]
pub(crate) struct Options {
    /// A tenth of everything: shows that it works.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// A case, and those figures that it has.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Line {
    case: Cow<'static, str>,
    /// How many of what the case is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    /// Wall time until the first message was accepted, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    /// CPU time of the emulator for each, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_us: Option<f64>,
    /// Resident memory of the process, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    rss: Option<u64>,
    /// How much resident memory each has taken, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<f64>,
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Record>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let program = Program::build()?;
    let scale = if options.quick { 10 } else { 1 };
    let mut lines = Vec::new();
    runtime.block_on(async {
        progress("emulator: start");
        lines.push(start().await?);
        lines.extend(launch(&program).await?);
        progress("emulator: through");
        lines.push(through(&program, 200_000 / scale).await?);
        progress("emulator: stored");
        lines.push(stored(&program, 1_000_000 / scale).await?);
        progress("emulator: sessions");
        for count in [1_000, 10_000] {
            lines.push(sessions(&program, count / scale).await?);
        }
        progress("emulator: entities");
        for count in [100, 1_000] {
            lines.push(entities(&program, count / scale).await?);
        }
        progress("emulator: connections");
        for count in [100, 1_000] {
            lines.push(connections(&program, count / scale).await?);
        }
        progress("");
        anyhow::Ok(())
    })?;
    Ok(lines.into_iter().map(Record::Emulator).collect())
}

/// One table with what each case is about.
pub(crate) fn tables(lines: &[&Line]) -> String {
    let mut table = Table::new([
        "",
        "count",
        "ms",
        "µs of CPU each",
        "bytes each",
        "MiB resident",
    ]);
    for line in lines {
        let about = match line.case.as_ref() {
            "start" => "in the test's process: until the first message is accepted",
            "launch" => "as a program: until the first message is accepted",
            "idle" => "as a program that has done nothing",
            "through" => "messages sent, stored, delivered and completed",
            "stored" => "messages that wait in a queue",
            "sessions" => "sessions with a message each, all held",
            "entities" => "queues with a message each",
            "connections" => "connections that have sent a message each",
            other => other,
        };
        table.row([
            about.to_owned(),
            line.count
                .map(|count| thousands(count as f64))
                .unwrap_or_default(),
            line.ms.map(figure).unwrap_or_default(),
            line.cpu_us.map(figure).unwrap_or_default(),
            line.bytes.map(thousands).unwrap_or_default(),
            line.rss.map(|rss| mib(rss as f64)).unwrap_or_default(),
        ]);
    }
    table.to_string()
}

/// From before `start()` in this process until the first message is accepted, over TCP.
async fn start() -> anyhow::Result<Line> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let begin = Instant::now();
        let emulator = Emulator::builder()
            .listen((Ipv4Addr::LOCALHOST, 0))
            .start()
            .await?;
        emulator
            .default_namespace()
            .create_queue("queue", QueueOptions::default())?;
        let client = Client::from_connection_string(&emulator.connection_string())?;
        client.sender("queue").send("first").await?;
        times.push(milliseconds(begin.elapsed()));
        client.close().await;
        emulator.stop().await;
    }
    Ok(Line {
        case: "start".into(),
        ms: Some(median(times.into_iter())),
        ..Line::default()
    })
}

/// From before the program is started until the first message is accepted; and its memory when nothing was done yet.
async fn launch(program: &Path) -> anyhow::Result<[Line; 2]> {
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begin = Instant::now();
        let emulator = Program::launch(program, 0).await?;
        let idle = status_bytes_of(emulator.id()?, "VmRSS")?;
        let client = Client::from_connection_string(emulator.connection_string())?;
        client.sender("queue").send("first").await?;
        times.push(milliseconds(begin.elapsed()));
        memory.push(idle);
        client.close().await;
    }
    Ok([
        Line {
            case: "launch".into(),
            ms: Some(median(times.into_iter())),
            ..Line::default()
        },
        Line {
            case: "idle".into(),
            rss: Some(median(memory.into_iter())),
            ..Line::default()
        },
    ])
}

/// Messages through one queue on one connection: sent, stored, delivered, completed.
async fn through(program: &Path, count: usize) -> anyhow::Result<Line> {
    let emulator = Program::launch(program, 0).await?;
    let growth = Growth::start(emulator.id()?)?;
    let mut load = tokio::process::Command::new(std::env::current_exe()?);
    load.args(["load", emulator.connection_string()]).args([
        &name_of(Case::Through),
        "queue",
        &count.to_string(),
    ]);
    let _: Report = Process::start(load)?.report().await?;
    growth.stop("through", count)
}

/// Messages of 1 KB that wait in a queue.
async fn stored(program: &Path, count: usize) -> anyhow::Result<Line> {
    let (emulator, client) = fresh(program).await?;
    fill(&client, "queue", PER_SESSION).await?;
    let growth = Growth::start(emulator.id()?)?;
    fill(&client, "queue", count).await?;
    let line = growth.stop("stored", count)?;
    client.close().await;
    Ok(line)
}

/// Sessions that have a message of 1 KB each and are all held by one client.
async fn sessions(program: &Path, count: usize) -> anyhow::Result<Line> {
    let (emulator, client) = fresh(program).await?;
    let sender = client.sender("sessions");
    let growth = Growth::start(emulator.id()?)?;
    let body = Bytes::from(vec![b'x'; BODY]);
    let ids: Vec<_> = (0..count).map(|n| format!("session-{n}")).collect();
    let mut held = Vec::with_capacity(count);
    for ids in ids.chunks(AT_ONCE) {
        let send = ids
            .iter()
            .map(|id| sender.send(Message::new(body.clone()).session_id(id.as_str())));
        try_join_all(send).await?;
        let accept = ids.iter().map(|id| {
            let options = SessionReceiverOptions::new().keep_lock(KeepLock::Off);
            client.accept_session_with::<servicebus::PeekLock>("sessions", id.as_str(), options)
        });
        held.extend(try_join_all(accept).await?);
    }
    let line = growth.stop("sessions", count)?;
    client.close().await;
    drop(held);
    Ok(line)
}

/// Queues, each with a message of 1 KB. What they take from the start of the program on, beyond what it takes without.
async fn entities(program: &Path, count: usize) -> anyhow::Result<Line> {
    // A start takes as much as some ten queues, and not always the same.
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let without = Program::launch(program, 0).await?;
        starts.push(Growth::start(without.id()?)?);
    }
    let emulator = Program::launch(program, count).await?;
    let growth = Growth {
        process: emulator.id()?,
        cpu: median(starts.iter().map(|start| start.cpu)),
        memory: median(starts.iter().map(|start| start.memory)),
    };
    let client = Client::from_connection_string(emulator.connection_string())?;
    let names: Vec<_> = (0..count).map(|n| format!("queue-{n}")).collect();
    let body = Bytes::from(vec![b'x'; BODY]);
    for names in names.chunks(AT_ONCE) {
        let send = names.iter().map(|name| {
            let (body, client) = (body.clone(), &client);
            async move { client.sender(name.as_str()).send(Message::new(body)).await }
        });
        try_join_all(send).await?;
    }
    let line = growth.stop("entities", count)?;
    client.close().await;
    Ok(line)
}

/// Connections, each with a sender that has sent a message of 1 KB.
async fn connections(program: &Path, count: usize) -> anyhow::Result<Line> {
    let (emulator, client) = fresh(program).await?;
    let growth = Growth::start(emulator.id()?)?;
    let body = Bytes::from(vec![b'x'; BODY]);
    let mut open = Vec::with_capacity(count);
    for _ in 0..count / AT_ONCE.min(count) {
        let connect = (0..AT_ONCE.min(count)).map(|_| async {
            let client = Client::from_connection_string(emulator.connection_string())?;
            client
                .sender("queue")
                .send(Message::new(body.clone()))
                .await?;
            anyhow::Ok(client)
        });
        open.extend(try_join_all(connect).await?);
    }
    let line = growth.stop("connections", count)?;
    join_all(open.iter().map(Client::close)).await;
    client.close().await;
    Ok(line)
}

/// The program anew, and a client that has sent a message.
async fn fresh(program: &Path) -> anyhow::Result<(Program, Client)> {
    let emulator = Program::launch(program, 0).await?;
    let client = Client::from_connection_string(emulator.connection_string())?;
    client.sender("queue").send("first").await?;
    Ok((emulator, client))
}

/// What a process uses from one moment to another.
struct Growth {
    process: u32,
    cpu: Duration,
    memory: u64,
}

impl Growth {
    fn start(process: u32) -> anyhow::Result<Self> {
        Ok(Self {
            process,
            cpu: cpu_time_of(process)?,
            memory: status_bytes_of(process, "VmRSS")?,
        })
    }

    fn stop(self, case: &'static str, count: usize) -> anyhow::Result<Line> {
        let memory = status_bytes_of(self.process, "VmRSS")?;
        let cpu = cpu_time_of(self.process)?.saturating_sub(self.cpu);
        Ok(Line {
            case: case.into(),
            count: Some(count),
            cpu_us: Some(each(cpu, count)),
            rss: Some(memory),
            bytes: Some(memory.saturating_sub(self.memory) as f64 / count.max(1) as f64),
            ..Line::default()
        })
    }
}

fn each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
