//! azservicebus in one case of `servicebus-bench client`: `azservicebus-bench CONNECTION_STRING CASE QUEUE COUNT`.
//!
//! Prints what it measured as one line of JSON. Its senders and receivers are used through `&mut`, so it does one operation
//! at a time; it receives ahead as the others do.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use azservicebus::ServiceBusClient;
use azservicebus::core::BasicRetryPolicy;
use azservicebus::prelude::*;
use rustix::time::{ClockId, clock_gettime};

type Client = ServiceBusClient<BasicRetryPolicy>;

const BODY: usize = 1024;
const AHEAD: u32 = 1000;
const BATCH: u64 = 100;
const WAIT: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [connection_string, case, queue, count] = &*arguments else {
        bail!("usage: azservicebus-bench CONNECTION_STRING CASE QUEUE COUNT");
    };
    let count = count.parse()?;
    let mut client = ServiceBusClient::<BasicRetryPolicy>::unsecured()
        .new_from_connection_string(connection_string.as_str(), Default::default())
        .await?;
    match case.as_str() {
        "send" => send(&mut client, queue, count).await?,
        "send_batch" => send_batch(&mut client, queue, count).await?,
        "peek_lock_complete" => {
            receive(&mut client, queue, count, ServiceBusReceiveMode::PeekLock).await?;
        }
        "receive_and_delete" => {
            let mode = ServiceBusReceiveMode::ReceiveAndDelete;
            receive(&mut client, queue, count, mode).await?;
        }
        "session" => session(&mut client, queue, count).await?,
        _ => bail!("no case {case}"),
    }
    client.dispose().await?;
    Ok(())
}

async fn send(client: &mut Client, queue: &str, count: u64) -> anyhow::Result<()> {
    let mut sender = client.create_sender(queue, Default::default()).await?;
    let meter = Meter::start();
    for _ in 0..count {
        sender.send_message(vec![b'x'; BODY]).await?;
    }
    meter.print(count)?;
    sender.dispose().await?;
    Ok(())
}

async fn send_batch(client: &mut Client, queue: &str, count: u64) -> anyhow::Result<()> {
    let mut sender = client.create_sender(queue, Default::default()).await?;
    let meter = Meter::start();
    for _ in 0..count / BATCH {
        let mut batch = sender.create_message_batch(Default::default())?;
        for _ in 0..BATCH {
            batch.try_add_message(vec![b'x'; BODY])?;
        }
        sender.send_message_batch(batch).await?;
    }
    meter.print(count)?;
    sender.dispose().await?;
    Ok(())
}

async fn receive(
    client: &mut Client,
    queue: &str,
    count: u64,
    mode: ServiceBusReceiveMode,
) -> anyhow::Result<()> {
    let settles = matches!(mode, ServiceBusReceiveMode::PeekLock);
    let options = ServiceBusReceiverOptions {
        receive_mode: mode,
        prefetch_count: AHEAD,
        ..Default::default()
    };
    let mut receiver = client.create_receiver_for_queue(queue, options).await?;
    let meter = Meter::start();
    let mut received = 0;
    while received < count {
        let messages = receiver
            .receive_messages_with_max_wait_time(AHEAD, WAIT)
            .await?;
        ensure!(!messages.is_empty(), "no more after {received}");
        for message in &messages {
            ensure!(message.body()?.len() == BODY, "a body has the wrong size");
            if settles {
                receiver.complete_message(message).await?;
            }
        }
        received += messages.len() as u64;
    }
    meter.print(received)?;
    receiver.dispose().await?;
    Ok(())
}

async fn session(client: &mut Client, queue: &str, count: u64) -> anyhow::Result<()> {
    let meter = Meter::start();
    let mut received = 0;
    while received < count {
        let options = ServiceBusSessionReceiverOptions {
            prefetch_count: BATCH as u32,
            ..Default::default()
        };
        let mut session = client.accept_next_session_for_queue(queue, options).await?;
        for _ in 0..BATCH {
            let message = session
                .receive_message_with_max_wait_time(WAIT)
                .await?
                .context("the session has more messages")?;
            ensure!(message.body()?.len() == BODY, "a body has the wrong size");
            session.complete_message(&message).await?;
            received += 1;
        }
        session.dispose().await?;
    }
    meter.print(received)
}

/// Wall and CPU time of this process.
struct Meter {
    wall: Instant,
    cpu: Duration,
}

impl Meter {
    fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: cpu_time(),
        }
    }

    fn print(self, count: u64) -> anyhow::Result<()> {
        let cpu = cpu_time().saturating_sub(self.cpu);
        let report = serde_json::json!({
            "count": count,
            "elapsed_ns": u64::try_from(self.wall.elapsed().as_nanos())?,
            "cpu_ns": u64::try_from(cpu.as_nanos())?,
            "peak_rss": peak_rss()?,
        });
        println!("{report}");
        Ok(())
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn peak_rss() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kib: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
        .context("no VmHWM")?
        .parse()?;
    Ok(kib * 1024)
}
