//! The engine driven by tokio.
