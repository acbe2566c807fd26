//! Our client in one case, in a process of its own: `servicebus-bench load CONNECTION_STRING CASE QUEUE COUNT`, as the
//! other clients' programs are called.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use servicebus::types::Bytes;
use servicebus::{Client, LockedMessage, Message, ReceiverOptions, SessionReceiverOptions};

use super::{BODY, Case, IN_FLIGHT, PER_BATCH, PER_SESSION};
use crate::measure::Meter;

const WAIT: Duration = Duration::from_secs(20);
/// Batches on their way at once.
const BATCHES: usize = 8;

#[derive(Args)]
pub(crate) struct Options {
    connection_string: String,
    case: Case,
    queue: String,
    count: usize,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = Client::from_connection_string(&options.connection_string)?;
        let (queue, count) = (options.queue.clone(), options.count);
        // As a task among the others: what `block_on` itself runs is polled far less often than they are.
        let case = options.case;
        let meter = tokio::spawn({
            let client = client.clone();
            async move { play(&client, case, &queue, count).await }
        })
        .await??;
        println!("{}", serde_json::to_string(&meter.stop(count as u64)?)?);
        client.close().await;
        Ok(())
    })
}

async fn play(client: &Client, case: Case, queue: &str, count: usize) -> anyhow::Result<Meter> {
    match case {
        Case::Send => send(client, queue, count).await,
        Case::SendBatch => send_batch(client, queue, count).await,
        Case::PeekLockComplete => peek_lock_complete(client, queue, count).await,
        Case::ReceiveAndDelete => receive_and_delete(client, queue, count).await,
        Case::Session => session(client, queue, count).await,
        Case::Through => {
            let (meter, _) = tokio::try_join!(
                send(client, queue, count),
                peek_lock_complete(client, queue, count)
            )?;
            Ok(meter)
        }
    }
}

async fn send(client: &Client, queue: &str, count: usize) -> anyhow::Result<Meter> {
    let sender = client.sender(queue);
    // The limit is known once the link is attached.
    sender.batch().await?;
    let body = Bytes::from(vec![b'x'; BODY]);
    let meter = Meter::start();
    stream::iter(0..count)
        .map(|_| sender.send(Message::new(body.clone())))
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    Ok(meter)
}

async fn send_batch(client: &Client, queue: &str, count: usize) -> anyhow::Result<Meter> {
    let sender = client.sender(queue);
    sender.batch().await?;
    let body = Bytes::from(vec![b'x'; BODY]);
    let meter = Meter::start();
    stream::iter(0..count / PER_BATCH)
        .map(|_| async {
            let mut batch = sender.batch().await?;
            for _ in 0..PER_BATCH {
                ensure!(
                    batch.try_add(&Message::new(body.clone()))?,
                    "the batch is full"
                );
            }
            Ok(sender.send_batch(batch).await?)
        })
        .buffer_unordered(BATCHES)
        .try_collect::<()>()
        .await?;
    Ok(meter)
}

async fn peek_lock_complete(client: &Client, queue: &str, count: usize) -> anyhow::Result<Meter> {
    let options = ReceiverOptions::new().prefetch(u32::try_from(IN_FLIGHT)?);
    let receiver = client.receiver_with(queue, options);
    let meter = Meter::start();
    complete(receiver.stream().take(count)).await?;
    Ok(meter)
}

async fn receive_and_delete(client: &Client, queue: &str, count: usize) -> anyhow::Result<Meter> {
    let options = ReceiverOptions::new().prefetch(u32::try_from(IN_FLIGHT)?);
    let receiver = client.deleting_receiver_with(queue, options);
    let meter = Meter::start();
    let mut messages = pin!(receiver.stream().take(count));
    while let Some(message) = messages.try_next().await? {
        ensure!(
            message.bytes().is_some_and(|body| body.len() == BODY),
            "a body has the wrong size"
        );
    }
    Ok(meter)
}

/// One session after another, each with [`PER_SESSION`] messages.
async fn session(client: &Client, queue: &str, count: usize) -> anyhow::Result<Meter> {
    let meter = Meter::start();
    for _ in 0..count / PER_SESSION {
        let options = SessionReceiverOptions::new()
            .prefetch(u32::try_from(PER_SESSION)?)
            .accept_wait(WAIT);
        let session = client
            .accept_next_session_with::<servicebus::PeekLock>(queue, options)
            .await?
            .context("there are more sessions")?;
        complete(session.stream().take(PER_SESSION)).await?;
        session.close().await;
    }
    Ok(meter)
}

async fn complete(
    messages: impl Stream<Item = servicebus::Result<LockedMessage>>,
) -> anyhow::Result<()> {
    messages
        .map(|message| async {
            let message = message?;
            ensure!(
                message.bytes().is_some_and(|body| body.len() == BODY),
                "a body has the wrong size"
            );
            Ok(message.complete().await?)
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}
