//! Guides: one page for each thing that needs more than a method's documentation. Their examples are run as tests, against
//! an emulator.

#[doc = include_str!("../guides/locks.md")]
pub mod locks {}

#[doc = include_str!("../guides/sessions.md")]
pub mod sessions {}

#[doc = include_str!("../guides/dead_letters.md")]
pub mod dead_letters {}

#[doc = include_str!("../guides/duplicates.md")]
pub mod duplicates {}

#[doc = include_str!("../guides/transactions.md")]
pub mod transactions {}

#[doc = include_str!("../guides/retries.md")]
pub mod retries {}

#[doc = include_str!("../guides/testing.md")]
pub mod testing {}

#[doc = include_str!("../guides/from_azservicebus.md")]
pub mod from_azservicebus {}
