//! Bytes to AMQP types and back.
