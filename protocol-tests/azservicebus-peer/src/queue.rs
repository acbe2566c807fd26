use anyhow::{Context as _, ensure};
use azservicebus::prelude::*;
use azservicebus::receiver::DeadLetterOptions;
use time::{Duration, OffsetDateTime};

use crate::{Client, NEVER, SOON};

/// Single messages, many at once, and a batch; received in order, with their properties.
///
/// Receive-and-delete is not here: the client wants a lock token there too, and the service sends none (see
/// docs/protocol/open-questions.md).
pub(crate) async fn send_and_receive(client: &mut Client, queue: &str) -> anyhow::Result<()> {
    let mut sender = client.create_sender(queue, Default::default()).await?;
    let mut message = ServiceBusMessage::new("one");
    message.set_message_id("m-1")?;
    message.set_subject("subject".to_owned());
    message.set_correlation_id("correlation".to_owned());
    sender.send_message(message).await.context("send")?;
    sender
        .send_messages(["two", "three"])
        .await
        .context("send many")?;
    let mut batch = sender.create_message_batch(Default::default())?;
    batch.try_add_message("four")?;
    batch.try_add_message("five")?;
    sender
        .send_message_batch(batch)
        .await
        .context("send a batch")?;

    let mut receiver = client
        .create_receiver_for_queue(queue, Default::default())
        .await?;
    for (index, body) in ["one", "two", "three"].into_iter().enumerate() {
        let received = receiver.receive_message_with_max_wait_time(SOON).await?;
        let received = received.with_context(|| format!("no message for {body}"))?;
        ensure!(
            received.body()? == body.as_bytes(),
            "{:?} is not {body}",
            received.body()?
        );
        ensure!(
            received.sequence_number() == index as i64 + 1,
            "sequence number of {body}"
        );
        ensure!(
            received.delivery_count() == Some(1),
            "delivery count of {body}"
        );
        if index == 0 {
            ensure!(
                received.message_id().as_deref() == Some("m-1"),
                "message id"
            );
            ensure!(received.subject() == Some("subject"), "subject");
            ensure!(
                received.correlation_id().as_deref() == Some("correlation"),
                "correlation id"
            );
        }
        receiver
            .complete_message(&received)
            .await
            .context("complete")?;
    }
    for body in ["four", "five"] {
        let received = receiver.receive_message_with_max_wait_time(SOON).await?;
        let received = received.with_context(|| format!("no message for {body}"))?;
        ensure!(
            received.body()? == body.as_bytes(),
            "{:?} is not {body}",
            received.body()?
        );
        receiver
            .complete_message(&received)
            .await
            .context("complete one of a batch")?;
    }
    let more = receiver.receive_message_with_max_wait_time(NEVER).await?;
    ensure!(more.is_none(), "the queue is not empty");
    receiver.dispose().await.context("close the receiver")?;
    sender.dispose().await.context("close the sender")
}

/// Abandon, defer, renew, dead-letter.
pub(crate) async fn settle(client: &mut Client, queue: &str) -> anyhow::Result<()> {
    let mut sender = client.create_sender(queue, Default::default()).await?;
    sender.send_message("job").await?;
    let mut receiver = client
        .create_receiver_for_queue(queue, Default::default())
        .await?;

    let first = receiver
        .receive_message_with_max_wait_time(SOON)
        .await?
        .context("first delivery")?;
    receiver
        .abandon_message(&first, None)
        .await
        .context("abandon")?;

    let mut second = receiver
        .receive_message_with_max_wait_time(SOON)
        .await?
        .context("second delivery")?;
    ensure!(
        second.delivery_count() == Some(2),
        "an abandoned message counts: {:?}",
        second.delivery_count()
    );
    ensure!(
        second.sequence_number() == first.sequence_number(),
        "it is the same message"
    );
    let locked_until = second.locked_until().context("locked until")?;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    receiver
        .renew_message_lock(&mut second)
        .await
        .context("renew")?;
    ensure!(
        second.locked_until().context("locked until")? > locked_until,
        "the lock is longer"
    );
    receiver
        .defer_message(&second, None)
        .await
        .context("defer")?;
    let none = receiver.receive_message_with_max_wait_time(NEVER).await?;
    ensure!(none.is_none(), "a deferred message is not delivered");

    let deferred = receiver
        .receive_deferred_message(second.sequence_number())
        .await?;
    let deferred = deferred.context("no deferred message")?;
    ensure!(deferred.body()? == b"job", "body of the deferred message");
    let options = DeadLetterOptions {
        dead_letter_reason: Some("tired".into()),
        dead_letter_error_description: Some("of waiting".into()),
        ..Default::default()
    };
    receiver
        .dead_letter_message(&deferred, options)
        .await
        .context("dead-letter")?;
    receiver.dispose().await?;

    let options = ServiceBusReceiverOptions {
        sub_queue: SubQueue::DeadLetter,
        ..Default::default()
    };
    let mut dead = client.create_receiver_for_queue(queue, options).await?;
    let letter = dead
        .receive_message_with_max_wait_time(SOON)
        .await?
        .context("no dead letter")?;
    ensure!(letter.body()? == b"job", "body of the dead letter");
    ensure!(
        letter.dead_letter_reason() == Some("tired"),
        "reason: {:?}",
        letter.dead_letter_reason()
    );
    ensure!(
        letter.dead_letter_error_description() == Some("of waiting"),
        "description"
    );
    dead.complete_message(&letter).await?;
    dead.dispose().await?;
    sender.dispose().await?;
    Ok(())
}

/// Scheduled messages are seen by peeking, can be cancelled, and come when it is time.
pub(crate) async fn schedule_and_peek(client: &mut Client, queue: &str) -> anyhow::Result<()> {
    let mut sender = client.create_sender(queue, Default::default()).await?;
    let mut receiver = client
        .create_receiver_for_queue(queue, Default::default())
        .await?;
    let now = OffsetDateTime::now_utc();

    let later = sender
        .schedule_message("later", now + Duration::hours(1))
        .await
        .context("schedule")?;
    let many = sender
        .schedule_messages(["a", "b"], now + Duration::hours(2))
        .await
        .context("schedule many")?;
    ensure!(many.len() == 2, "two sequence numbers");
    let peeked = receiver.peek_messages(10, Some(0)).await.context("peek")?;
    ensure!(
        peeked.len() == 3,
        "peeked {} of 3 scheduled messages",
        peeked.len()
    );
    ensure!(
        peeked
            .iter()
            .all(|m| m.state() == ServiceBusMessageState::Scheduled),
        "they are scheduled"
    );

    sender
        .cancel_scheduled_message(later)
        .await
        .context("cancel")?;
    sender
        .cancel_scheduled_messages(many)
        .await
        .context("cancel many")?;
    ensure!(
        receiver.peek_messages(10, Some(0)).await?.is_empty(),
        "all are cancelled"
    );

    sender
        .schedule_message("soon", now + Duration::seconds(1))
        .await?;
    let soon = receiver
        .receive_message_with_max_wait_time(SOON)
        .await?
        .context("the scheduled message")?;
    ensure!(soon.body()? == b"soon", "body of the scheduled message");
    receiver.complete_message(&soon).await?;
    receiver.dispose().await?;
    sender.dispose().await?;
    Ok(())
}
