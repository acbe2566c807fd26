//! Proving who one is: credentials, tokens, and the `$cbs` node that takes them.
//!
//! A token is put on `$cbs` for each entity a client uses, and put anew ahead of its end for as long as a link to the
//! entity is open. Everything here is a function of its arguments; the time is one of them.

pub mod cbs;
mod credential;
pub mod renewal;
mod sas;
mod token;

pub use credential::{NamedKeyCredential, SasCredential};
pub use sas::{SasSignature, SharedAccessKey};
pub use token::{Token, TokenKind};
