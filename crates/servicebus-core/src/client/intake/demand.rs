//! Credit: what receives want, what the broker was given for it, and what comes that nobody wants any more.

use std::sync::{Arc, Weak};
use std::time::Duration;

use servicebus_amqp::engine::CreditMode;

use super::{Intake, lock};
use crate::client::link::ReceivingLink;
use crate::management::ReceiveMode;

/// How long messages that nobody asks for any more are kept for the next receive before they are given back.
pub(super) const KEEP: Duration = Duration::from_millis(500);

/// After so many rounds of that time in which nothing came, nothing is on its way any more.
const QUIET_ROUNDS: u32 = 4;

/// What receives want, and what may still come for them.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// How many messages receives wait for.
    pub(super) demand: usize,
    /// How many were taken since the credit was last looked at.
    pub(super) taken: usize,
    /// For how many rounds messages may still come that nobody asks for, because their credit was taken back.
    pub(super) surplus: u32,
    /// Whether a task looks for them.
    sweeping: bool,
}

/// The messages that one receive waits for.
pub(super) struct Demand<'a> {
    intake: &'a Arc<Intake>,
    count: usize,
    /// How many it returns with.
    pub(super) taken: usize,
}

impl<'a> Demand<'a> {
    pub(super) fn enter(intake: &'a Arc<Intake>, count: usize) -> Self {
        let mut flow = lock(&intake.flow);
        flow.demand = flow.demand.saturating_add(count);
        drop(flow);
        Self {
            intake,
            count,
            taken: 0,
        }
    }
}

impl Drop for Demand<'_> {
    fn drop(&mut self) {
        self.intake.leave(self.count, self.taken);
    }
}

impl Intake {
    /// Gives the broker credit for what is wanted and not here, or takes back what is not wanted any more.
    pub(super) fn adjust_credit(&self, link: &ReceivingLink) {
        let mut flow = lock(&self.flow);
        flow.taken = 0;
        let prefetch = usize::try_from(self.settings.prefetch).unwrap_or(usize::MAX);
        let want = flow.demand.max(prefetch);
        // Credit first: a delivery that arrives between the two is counted twice and not left out.
        let Ok(status) = link.link.status() else {
            return;
        };
        let credit = usize::try_from(status.credit).unwrap_or(usize::MAX);
        let have = credit + link.link.inbox_len() + lock(&self.kept).len();
        let result = if have < want {
            let missing = want - have;
            // A window is filled up a quarter at a time.
            if have >= flow.demand && missing < prefetch.div_ceil(4) {
                return;
            }
            link.link
                .add_credit(u32::try_from(missing).unwrap_or(u32::MAX))
        } else if have > want && credit > 0 {
            let left = credit.saturating_sub(have - want);
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            link.link.set_credit(CreditMode::Exact(left))
        } else {
            return;
        };
        // The link has just ended if it fails.
        let _ = result;
    }

    /// Gives the broker credit for what is to be fetched ahead, once enough was taken for that.
    pub(super) fn refill(&self) {
        let prefetch = usize::try_from(self.settings.prefetch).unwrap_or(usize::MAX);
        if prefetch > 0
            && lock(&self.flow).taken >= prefetch.div_ceil(4)
            && let Some(link) = self.link.living()
        {
            self.adjust_credit(&link);
        }
    }

    /// A receive has ended: its credit is taken back, and messages that come nevertheless are not forgotten.
    fn leave(self: &Arc<Self>, count: usize, taken: usize) {
        let left_over = taken < count;
        {
            let mut flow = lock(&self.flow);
            flow.demand = flow.demand.saturating_sub(count);
            // A session takes its messages with it.
            let kept = self.settings.mode == ReceiveMode::PeekLock && self.session().is_some();
            if left_over && self.settings.prefetch == 0 && !kept {
                flow.surplus = QUIET_ROUNDS;
            }
        }
        if !left_over {
            self.refill();
        } else if let Some(link) = self.link.living() {
            self.adjust_credit(&link);
        }
        let mut flow = lock(&self.flow);
        if flow.surplus > 0
            && !flow.sweeping
            && flow.demand == 0
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            flow.sweeping = true;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }
}

/// Gives back messages that nobody asks for, until no more can be on their way.
async fn sweep(intake: Weak<Intake>) {
    loop {
        tokio::time::sleep(KEEP).await;
        let Some(intake) = intake.upgrade() else {
            return;
        };
        {
            let mut flow = lock(&intake.flow);
            // The last one who asks leaves another sweep behind.
            if flow.demand > 0 || flow.surplus == 0 {
                flow.sweeping = false;
                return;
            }
            flow.surplus -= 1;
        }
        if intake.settings.mode == ReceiveMode::ReceiveAndDelete {
            // They are kept for the next receive.
            continue;
        }
        let left = intake.pop_all();
        if left.is_empty() {
            continue;
        }
        lock(&intake.flow).surplus = QUIET_ROUNDS;
        tracing::debug!(entity = %intake.node.address, count = left.len(), "messages that nobody asked for are given back");
        for taken in left {
            taken.link.release(taken.delivery.delivery);
        }
    }
}
