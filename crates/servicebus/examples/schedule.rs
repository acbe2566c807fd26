//! Schedules two messages, and takes one of them back.

#![allow(clippy::disallowed_methods, reason = "programs read the clock")]

mod common;

use std::time::{Duration, SystemTime};

#[tokio::main]
async fn main() -> common::Result {
    let namespace = common::connect().await?;
    let sender = namespace.client.sender("orders");

    let soon = SystemTime::now() + Duration::from_secs(2);
    let first = sender.schedule("take this one back", soon).await?;
    sender.schedule("remember the milk", soon).await?;
    sender.cancel_scheduled(first).await?;

    println!("waiting for two seconds …");
    let message = namespace.client.receiver("orders").receive().await?;
    println!("received {:?}", common::text(&message));
    message.complete().await?;
    Ok(())
}
