use anyhow::{Context as _, ensure};
use azservicebus::prelude::*;

use crate::{Client, NEVER, SOON};

/// A named session and the next one: only their own messages, state, lock.
pub(crate) async fn sessions(client: &mut Client, queue: &str) -> anyhow::Result<()> {
    let mut sender = client.create_sender(queue, Default::default()).await?;
    for (session, body) in [("red", "r1"), ("blue", "b1"), ("red", "r2")] {
        let mut message = ServiceBusMessage::new(body);
        message.set_session_id(session.to_owned())?;
        sender.send_message(message).await?;
    }

    let mut red = client
        .accept_session_for_queue(queue, "red", Default::default())
        .await
        .context("accept red")?;
    ensure!(red.session_id() == "red", "session {}", red.session_id());
    for body in ["r1", "r2"] {
        let message = red
            .receive_message_with_max_wait_time(SOON)
            .await?
            .context("a message of red")?;
        ensure!(message.body()? == body.as_bytes(), "{body} is next");
        ensure!(message.session_id() == Some("red"), "session of {body}");
        red.complete_message(&message).await?;
    }
    ensure!(
        red.receive_message_with_max_wait_time(NEVER)
            .await?
            .is_none(),
        "red has no more"
    );

    red.set_session_state(b"half done".to_vec())
        .await
        .context("set the state")?;
    ensure!(
        red.session_state().await.context("state")? == b"half done",
        "state"
    );
    let locked_until = red.session_locked_until();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    red.renew_session_lock()
        .await
        .context("renew the session")?;
    ensure!(
        red.session_locked_until() > locked_until,
        "the session's lock is longer"
    );

    let mut next = client
        .accept_next_session_for_queue(queue, Default::default())
        .await
        .context("accept next")?;
    ensure!(
        next.session_id() == "blue",
        "red is locked, so blue is next: {}",
        next.session_id()
    );
    let message = next
        .receive_message_with_max_wait_time(SOON)
        .await?
        .context("a message of blue")?;
    ensure!(message.body()? == b"b1", "body of blue");
    next.complete_message(&message).await?;
    next.dispose().await?;
    red.dispose().await?;

    let mut red = client
        .accept_session_for_queue(queue, "red", Default::default())
        .await
        .context("accept red again")?;
    ensure!(
        red.session_state().await? == b"half done",
        "the state outlives the receiver"
    );
    red.dispose().await?;
    sender.dispose().await?;
    Ok(())
}
