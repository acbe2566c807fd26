//! What the broker does, told by its commands and effects in virtual time.

mod settlement;
mod support;
