//! Works through the next session in its order, and remembers how far it came in the session's state.

mod common;

use std::time::Duration;

use servicebus::Message;

#[tokio::main]
async fn main() -> common::Result {
    let namespace = common::connect().await?;
    let items = ["tea", "milk", "sugar"].map(|item| Message::new(item).session_id("cart-1"));
    namespace.client.sender("carts").send_all(items).await?;

    let wait = Duration::from_secs(5);
    while let Some(session) = namespace.client.accept_next_session("carts", wait).await? {
        while let Some(item) = session.receive_within(Duration::from_secs(1)).await? {
            println!("{}: {}", session.session_id(), common::text(&item));
            session
                .set_state(format!("up to {}", item.sequence_number()))
                .await?;
            item.complete().await?;
        }
        let state = session.state().await?.unwrap_or_default();
        println!("state: {}", String::from_utf8_lossy(&state));
        session.close().await;
    }
    Ok(())
}
