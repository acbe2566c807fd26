//! One behaviour group of azservicebus against a Service Bus without TLS on port 5672.
//!
//! `azservicebus-peer CONNECTION_STRING GROUP ENTITY...` ends with a failure and a reason when a result is not as expected.

mod queue;
mod session;
mod topic;

use std::time::Duration;

use anyhow::{Context as _, bail};
use azservicebus::ServiceBusClient;
use azservicebus::core::BasicRetryPolicy;

pub(crate) type Client = ServiceBusClient<BasicRetryPolicy>;

/// How long a receiver waits for what is there already, or is about to be.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// How long a receiver waits for what must not come.
pub(crate) const NEVER: Duration = Duration::from_millis(300);

// On one thread: fe2o3-amqp 0.14 notes a delivery only after it has sent it, so that another thread may have its outcome by
// then, and loses it. The sender would wait for ever.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [connection_string, group, entities @ ..] = &*arguments else {
        bail!("usage: azservicebus-peer CONNECTION_STRING GROUP ENTITY...");
    };
    let mut client = ServiceBusClient::<BasicRetryPolicy>::unsecured()
        .new_from_connection_string(*connection_string, Default::default())
        .await
        .context("connect")?;
    match (*group, entities) {
        ("send_and_receive", [queue]) => queue::send_and_receive(&mut client, queue).await?,
        ("settle", [queue]) => queue::settle(&mut client, queue).await?,
        ("schedule_and_peek", [queue]) => queue::schedule_and_peek(&mut client, queue).await?,
        ("sessions", [queue]) => session::sessions(&mut client, queue).await?,
        ("rules", [topic, subscription]) => topic::rules(&mut client, topic, subscription).await?,
        _ => bail!("no group {group} with {} entities", entities.len()),
    }
    client.dispose().await.context("close")?;
    Ok(())
}
