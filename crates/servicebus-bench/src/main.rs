//! Side-by-side measurements against other AMQP 1.0 stacks.
fn main() {}
