use servicebus::Message;

use crate::support::*;

#[tokio::test]
async fn a_message_is_sent_received_and_completed() {
    let world = World::new().await;
    let queue = world.queue("orders");
    let sent = Message::new("hello")
        .message_id("order-17")
        .subject("greeting");
    soon(world.client.sender("orders").send(sent))
        .await
        .unwrap();

    let message = soon(world.client.receiver("orders").receive())
        .await
        .unwrap();
    assert_eq!(message.text().as_deref(), Some("hello"));
    assert_eq!(message.message_id().unwrap().to_string(), "order-17");
    assert_eq!(message.subject(), Some("greeting"));
    assert_eq!(message.delivery_count(), 1);
    assert_eq!(queue.counts().unwrap().active, 1);
    soon(message.complete()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
    soon(world.client.close()).await;
}
