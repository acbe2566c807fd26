//! Sends a message, then a thousand in as few batches as can be.

mod common;

use servicebus::Message;

#[tokio::main]
async fn main() -> common::Result {
    let namespace = common::connect().await?;
    let sender = namespace.client.sender("orders");

    let message = Message::new("two apples")
        .message_id("order-17")
        .subject("fruit")
        .property("amount", 2);
    sender.send(message).await?;
    sender
        .send_all((0..1000).map(|n| format!("order {n}")))
        .await?;

    println!("sent 1001 messages");
    namespace.client.close().await;
    Ok(())
}
