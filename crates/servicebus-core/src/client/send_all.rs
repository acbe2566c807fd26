use super::sender::Sender;
use crate::batch::MessageBatch;
use crate::error::{Error, ErrorKind};
use crate::message::Message;

impl Sender {
    /// Sends messages in their order, in as few batches as the service's limits and the messages' sessions and partition
    /// keys allow. A message that is too large for a batch is sent alone. Messages without an id are given one.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); the error says how many messages, counted from the first, are sent. Those that follow
    /// were not sent, unless it is [`ErrorKind::Uncertain`].
    ///
    /// # Cancel safety
    ///
    /// Each batch is sent or not as in [`send`](Self::send); how many were is not told when the future is dropped.
    pub async fn send_all<M: Into<Message>>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<(), SendAllError> {
        let mut messages = messages.into_iter().map(Into::into).peekable();
        let mut sent = 0;
        if messages.peek().is_none() {
            return Ok(());
        }
        let failed = |sent, error| SendAllError { sent, error };
        let mut batch = self.batch().await.map_err(|error| failed(0, error))?;
        for mut message in messages {
            message.assign_message_id();
            let group = batch.is_empty() || batch.takes_group(&message);
            let mut added = if group {
                batch.try_add(&message)
            } else {
                Ok(false)
            };
            if let Ok(false) = added {
                let next = self.batch().await.map_err(|error| failed(sent, error))?;
                let full = std::mem::replace(&mut batch, next);
                let count = full.len();
                self.send_batch(full)
                    .await
                    .map_err(|error| failed(sent, error))?;
                sent += count;
                added = batch.try_add(&message);
            }
            match added {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::MessageTooLarge => {
                    self.send(message)
                        .await
                        .map_err(|error| failed(sent, error))?;
                    sent += 1;
                }
                Err(error) => return Err(self.flush(batch, sent, error).await),
            }
        }
        self.send_batch(batch)
            .await
            .map_err(|error| failed(sent, error))
    }

    /// A message is wrong in itself: what comes before it is sent.
    async fn flush(&self, batch: MessageBatch, sent: usize, error: Error) -> SendAllError {
        let count = batch.len();
        match self.send_batch(batch).await {
            Ok(()) => SendAllError {
                sent: sent + count,
                error: self.node().about(error),
            },
            Err(error) => SendAllError { sent, error },
        }
    }
}

/// Why [`Sender::send_all`] stopped, and how far it came.
#[derive(Debug)]
pub struct SendAllError {
    sent: usize,
    error: Error,
}

impl SendAllError {
    /// How many messages, counted from the first, are sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Why no more are.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl std::fmt::Display for SendAllError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {} messages: {}", self.sent, self.error)
    }
}

impl std::error::Error for SendAllError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<SendAllError> for Error {
    fn from(error: SendAllError) -> Self {
        error.error
    }
}
