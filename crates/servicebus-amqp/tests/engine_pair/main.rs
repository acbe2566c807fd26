//! Two engines back to back, in virtual time.

mod basics;
mod pair;
