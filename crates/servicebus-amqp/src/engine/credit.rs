use super::{CreditMode, serial};
use crate::types::Flow;

/// The credit that a receiving link gives.
///
/// It is kept as the limit that it sets: deliveries below `limit` may come. In window mode `limit` is what was last told to the
/// peer, and `places` says how far it may be moved.
#[derive(Debug)]
pub(super) struct Credit {
    delivery_count: u32,
    /// The delivery-count up to which the peer has credit.
    limit: u32,
    /// The highest limit that the peer ever had: what is on its way when credit is taken back is no violation.
    highest_limit: u32,
    mode: CreditMode,
    /// Window mode: places that the application gave back and that no credit was given for yet.
    places: u32,
    draining: bool,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            delivery_count: 0,
            limit: 0,
            highest_limit: 0,
            mode: CreditMode::Exact(0),
            places: 0,
            draining: false,
        }
    }
}

impl Credit {
    /// The sender's attach says where the delivery-count starts.
    pub(super) fn start(&mut self, delivery_count: u32) {
        let left = self.left();
        self.delivery_count = delivery_count;
        self.highest_limit = delivery_count;
        self.limit = delivery_count.wrapping_add(left);
    }

    /// How many deliveries may still come.
    pub(super) fn left(&self) -> u32 {
        serial::distance(self.delivery_count, self.limit)
            .max(0)
            .unsigned_abs()
    }

    pub(super) fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    /// Whether the peer may send one more delivery.
    pub(super) fn allows_delivery(&self) -> bool {
        serial::distance(self.delivery_count, self.highest_limit) > 0
    }

    pub(super) fn set_mode(&mut self, mode: CreditMode) {
        let credit = match (self.mode, mode) {
            (_, CreditMode::Exact(credit)) => credit,
            // Deliveries that the application still holds keep their places.
            (CreditMode::Window(old), CreditMode::Window(new)) => {
                let held = old.saturating_sub(self.left() + self.places);
                new.saturating_sub(held)
            }
            (CreditMode::Exact(_), CreditMode::Window(window)) => window,
        };
        self.mode = mode;
        self.places = 0;
        self.draining = false;
        self.set_left(credit);
    }

    /// Adds to exact credit; `false` in window mode.
    pub(super) fn add(&mut self, credit: u32) -> bool {
        let exact = matches!(self.mode, CreditMode::Exact(_));
        if exact {
            self.set_mode(CreditMode::Exact(self.left().saturating_add(credit)));
        }
        exact
    }

    /// Gives places back; `true` when enough are free that a flow is worth it.
    pub(super) fn release(&mut self, count: u32) -> bool {
        let CreditMode::Window(window) = self.mode else {
            return false;
        };
        let free = window.saturating_sub(self.left());
        self.places = self.places.saturating_add(count).min(free);
        self.places > 0 && self.places >= window / 2
    }

    /// Asks for all of it to be used up. `false`: there is none, and nothing to ask for.
    pub(super) fn drain(&mut self, delivery_under_way: bool) -> bool {
        self.mode = CreditMode::Exact(0);
        self.places = 0;
        self.draining = self.left() > 0 || delivery_under_way;
        self.draining
    }

    /// Whether a drain is complete. `true` once.
    pub(super) fn take_drained(&mut self) -> bool {
        let drained = self.draining && self.left() == 0;
        self.draining &= !drained;
        drained
    }

    /// Counts a delivery for the application.
    pub(super) fn count(&mut self) {
        self.move_to(self.delivery_count.wrapping_add(1));
    }

    /// Counts deliveries that the application does not see: the credit that they took is given again. `true`: a flow is due.
    pub(super) fn count_unseen(&mut self, deliveries: u32) -> bool {
        let left = self.left();
        self.move_to(self.delivery_count.wrapping_add(deliveries));
        match self.mode {
            CreditMode::Window(_) => self.release(left - self.left()),
            CreditMode::Exact(_) if self.draining => false,
            CreditMode::Exact(_) => {
                self.set_left(left);
                left > 0
            }
        }
    }

    /// The flow of a sender with no delivery under way. It may move the delivery-count on without a delivery
    /// (AMQP 1.0 §2.6.7), as it does to answer a drain: also one that was given up meanwhile, and then it used up what credit
    /// it was given since. `true`: a flow is due.
    pub(super) fn on_delivery_count(&mut self, count: u32) -> bool {
        let skipped = serial::distance(self.delivery_count, count);
        if skipped <= 0 {
            return false;
        }
        if serial::distance(self.highest_limit, count) > 0 {
            self.highest_limit = count;
        }
        self.count_unseen(skipped.unsigned_abs())
    }

    /// The sender says how much credit it has left. Some complete a drain that way, without moving the delivery-count.
    pub(super) fn on_credit_left(&mut self, left: u32) {
        if self.draining && left == 0 {
            self.limit = self.delivery_count;
        }
    }

    /// The link part of our flow.
    pub(super) fn fill_flow(&mut self, flow: &mut Flow) {
        let places = std::mem::take(&mut self.places);
        self.set_left(self.left() + places);
        if serial::distance(self.highest_limit, self.limit) > 0 {
            self.highest_limit = self.limit;
        }
        flow.delivery_count = Some(self.delivery_count);
        flow.link_credit = Some(self.left());
        flow.drain = self.draining;
    }

    fn set_left(&mut self, credit: u32) {
        // Serial numbers can be told apart over half of their range.
        self.limit = self
            .delivery_count
            .wrapping_add(credit.min(i32::MAX.unsigned_abs()));
    }

    fn move_to(&mut self, delivery_count: u32) {
        self.delivery_count = delivery_count;
        if serial::distance(self.limit, delivery_count) > 0 {
            self.limit = delivery_count;
        }
    }
}
