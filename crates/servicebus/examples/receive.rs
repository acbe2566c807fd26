//! Receives messages and completes each when its work is done.

mod common;

use std::time::Duration;

#[tokio::main]
async fn main() -> common::Result {
    let namespace = common::connect().await?;
    namespace
        .client
        .sender("orders")
        .send_all(["one", "two", "three"])
        .await?;

    let receiver = namespace.client.receiver("orders");
    while let Some(message) = receiver.receive_within(Duration::from_secs(2)).await? {
        println!("working on {:?}", common::text(&message));
        message.complete().await?;
    }

    println!("nothing came for two seconds");
    namespace.client.close().await;
    Ok(())
}
