//! What the broker does, told by its commands and effects in virtual time.

mod browsing;
mod deferral;
mod entities;
mod expiry;
mod forwarding;
mod scheduling;
mod sessions;
mod settlement;
mod support;
mod topics;
mod transactions;
