//! The main things of Service Bus in a minute, with a word on each.
//!
//! `cargo run --example quickstart` starts an emulator in this process. With `SERVICEBUS_CONNECTION_STRING` set it runs
//! against that namespace, which needs the queues `orders` and, with sessions, `carts`, both empty.

#![allow(clippy::disallowed_methods, reason = "programs read the clock")]

mod common;

use std::time::{Duration, Instant, SystemTime};

use common::{Result, text};
use servicebus::{
    Client, DeadLetter, Message, MessageState, ReceiverOptions, SessionReceiver, SubQueue,
};

#[tokio::main]
async fn main() -> Result {
    let began = Instant::now();
    let namespace = common::connect().await?;
    let client = &namespace.client;
    send_and_complete(client).await?;
    abandon(client).await?;
    dead_letter(client).await?;
    session(client).await?;
    scheduled(client).await?;
    transaction(client).await?;
    client.close().await;
    heading("Done");
    say(&format!("everything took {:.1?}", began.elapsed()));
    say("next: crates/servicebus/examples/receive.rs, and the guides in docs/guides");
    Ok(())
}

async fn send_and_complete(client: &Client) -> Result {
    heading("Send, receive, complete");
    let message = Message::new("two apples")
        .message_id("order-1")
        .property("amount", 2);
    client.sender("orders").send(message).await?;
    say("sent order-1; the service has confirmed it");

    let message = client.receiver("orders").receive().await?;
    say(&format!("received {:?}", text(&message)));
    say(&format!(
        "its lock is ours for {}, and is renewed in the background",
        left(message.locked_until())
    ));
    message.complete().await?;
    say("completed: the service says that it is gone");
    say("it cannot be completed twice, for complete() consumes it");
    Ok(())
}

async fn abandon(client: &Client) -> Result {
    heading("Abandon, and see it come again");
    client.sender("orders").send("a hot potato").await?;
    let receiver = client.receiver("orders");
    loop {
        let potato = receiver.receive().await?;
        let deliveries = potato.delivery_count();
        if deliveries < 3 {
            say(&format!("delivery {deliveries}: too hot, abandoned"));
            potato.abandon().await?;
        } else {
            say(&format!("delivery {deliveries}: cool enough, completed"));
            potato.complete().await?;
            return Ok(());
        }
    }
}

async fn dead_letter(client: &Client) -> Result {
    heading("Dead-letter, and read it back");
    client.sender("orders").send("{ not json").await?;
    let message = client.receiver("orders").receive().await?;
    let why = DeadLetter::new("unreadable").description("expected a key at column 3");
    message.dead_letter(why).await?;
    say("moved to the dead-letter queue, with a reason");

    let options = ReceiverOptions::new().sub_queue(SubQueue::DeadLetter);
    let dead = client.receiver_with("orders", options).receive().await?;
    let (reason, more) = (
        dead.dead_letter_reason(),
        dead.dead_letter_error_description(),
    );
    say(&format!(
        "found there: {:?}, {}: {}",
        text(&dead),
        show(reason),
        show(more)
    ));
    dead.complete().await?;
    Ok(())
}

async fn session(client: &Client) -> Result {
    heading("A session, in order, with a state");
    let items = ["tea", "milk", "sugar"].map(|item| Message::new(item).session_id("cart-1"));
    client.sender("carts").send_all(items).await?;

    let session: SessionReceiver = client.accept_session("carts", "cart-1").await?;
    say("session cart-1 is ours; nobody else gets its messages meanwhile");
    let mut cart = Vec::new();
    while cart.len() < 3 {
        let item = session.receive().await?;
        cart.push(text(&item));
        session.set_state(cart.join(" + ")).await?;
        item.complete().await?;
    }
    let state = session.state().await?.unwrap_or_default();
    say(&format!(
        "its state is kept with it: {}",
        String::from_utf8_lossy(&state)
    ));
    session.clear_state().await?;
    session.close().await;
    Ok(())
}

async fn scheduled(client: &Client) -> Result {
    heading("A message for later");
    let began = Instant::now();
    let sender = client.sender("orders");
    let at = SystemTime::now() + Duration::from_millis(1500);
    sender.schedule("good morning", at).await?;
    let cancelled = sender.schedule("never mind", at).await?;
    sender.cancel_scheduled(cancelled).await?;
    let receiver = client.receiver("orders");
    let waiting = receiver.peek(10).await?;
    let scheduled = waiting
        .iter()
        .filter(|m| m.state() == MessageState::Scheduled)
        .count();
    say(&format!(
        "two scheduled, one cancelled; peek shows {scheduled} and locks nothing"
    ));
    let message = receiver.receive().await?;
    say(&format!(
        "received {:?} after {:.1?}",
        text(&message),
        began.elapsed()
    ));
    message.complete().await?;
    Ok(())
}

async fn transaction(client: &Client) -> Result {
    heading("A transaction: all or nothing");
    let (sender, receiver) = (client.sender("orders"), client.receiver("orders"));
    sender.send("step 1").await?;
    let step = receiver.receive().await?;
    let transaction = client.transaction();
    transaction.complete(step).await?;
    transaction.send(&sender, "step 2").await?;
    say("step 1 is completed and step 2 sent, and nobody sees either yet");
    transaction.commit().await?;
    let next = receiver.receive().await?;
    say(&format!("committed: {:?} is there", text(&next)));
    next.complete().await?;
    Ok(())
}

fn heading(text: &str) {
    println!("\n{text}");
}

fn say(text: &str) {
    println!("  {text}");
}

fn show(text: Option<String>) -> String {
    text.unwrap_or_else(|| "no reason".to_owned())
}

/// How long it is until then.
fn left(until: Option<SystemTime>) -> String {
    let left = until.and_then(|until| until.duration_since(SystemTime::now()).ok());
    left.map_or_else(
        || "a while".to_owned(),
        |left| format!("{:.0} s", left.as_secs_f64()),
    )
}
