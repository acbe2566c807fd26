//! Azure Service Bus client over AMQP 1.0.
