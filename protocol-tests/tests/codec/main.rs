//! The codec against recorded bytes, cases of real trouble, and hostile input.

mod captures;
mod golden;
