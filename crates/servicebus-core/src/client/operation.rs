use std::time::Instant;

use super::clock::{now, random};
use super::node::Node;
use crate::error::{Error, Recovery, Result};
use crate::retry::Attempts;

/// One operation of a user, with its attempts and the waits between them.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    node: &'a Node,
    attempts: Attempts<'a>,
    name: &'static str,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(node: &'a Node, name: &'static str) -> Self {
        Self {
            node,
            attempts: Attempts::new(&node.shared.options.retry, now()),
            name,
        }
    }

    /// Begins an attempt, once a busy service may be asked again; says when the attempt has to end.
    pub(crate) async fn begin(&self) -> Result<Option<Instant>> {
        self.node.check()?;
        let wait = self.node.hold_off_remaining();
        if !wait.is_zero() {
            // Boxed, for most operations never wait.
            Box::pin(self.pause(wait)).await?;
        }
        Ok(self.attempts.try_deadline(now()))
    }

    /// An attempt failed: waits for the next one, or gives the error back when there is to be none.
    pub(crate) async fn failed(&mut self, error: Error) -> Result<()> {
        let now = now();
        if error.recovery() == Recovery::Busy {
            self.node.is_busy(now);
        }
        let Some(wait) = self.attempts.after_failure(&error, now, random()) else {
            return Err(self.node.about(error));
        };
        tracing::debug!(
            operation = self.name,
            entity = %self.node.address,
            failures = self.attempts.failures(),
            ?wait,
            %error,
            "trying again"
        );
        if error.recovery() == Recovery::Token {
            self.node.forget_grant();
        }
        Box::pin(self.pause(wait)).await
    }

    async fn pause(&self, wait: std::time::Duration) -> Result<()> {
        let closing = &self.node.shared.closing;
        closing
            .unless_closed(async {
                tokio::time::sleep(wait).await;
                Ok(())
            })
            .await
    }
}
