//! The client end to end, against an emulator in memory whose clock the tests hold.

mod closing;
mod growth;
mod locks;
mod receiving;
mod recovery;
mod rules;
mod sending;
mod sessions;
mod settling;
mod support;
mod tokens;
mod transactions;
