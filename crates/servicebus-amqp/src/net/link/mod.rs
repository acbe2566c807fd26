//! Links: what both ends share, the end that sends, and the end that receives.

mod outcome;
mod receiver;
mod sender;
mod shared;

pub use outcome::Outcome;
pub use receiver::ReceiverLink;
pub use sender::SenderLink;
pub(super) use shared::{Link, LinkShared};
