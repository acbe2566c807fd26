//! The client end to end, against an emulator in memory whose clock the tests hold.

mod receiving;
mod support;
