use std::sync::Arc;

use bytestring::ByteString;

use super::link::ReceivingLink;
use super::renewer::Hold;

/// A session that is held by a link, and its lock. Its receiver and its messages share it: the lock is renewed until the
/// last of them is gone.
#[derive(Debug)]
pub(crate) struct HeldSession {
    pub(crate) id: ByteString,
    pub(crate) link: Arc<ReceivingLink>,
    /// None when the service did not say when the lock ends.
    hold: Option<Hold>,
}

impl HeldSession {
    pub(crate) fn new(id: ByteString, link: Arc<ReceivingLink>, hold: Option<Hold>) -> Arc<Self> {
        Arc::new(Self { id, link, hold })
    }

    pub(crate) fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release();
        }
    }
}
