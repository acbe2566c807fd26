//! Completes a message and sends the next one: both, or neither.

mod common;

#[tokio::main]
async fn main() -> common::Result {
    let namespace = common::connect().await?;
    let sender = namespace.client.sender("orders");
    let receiver = namespace.client.receiver("orders");
    sender.send("step 1").await?;

    let step = receiver.receive().await?;
    let transaction = namespace.client.transaction();
    transaction.complete(step).await?;
    transaction.send(&sender, "step 2").await?;
    transaction.commit().await?;

    let next = receiver.receive().await?;
    println!("received {:?}", common::text(&next));
    next.complete().await?;
    Ok(())
}
