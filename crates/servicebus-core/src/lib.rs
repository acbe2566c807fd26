//! Service Bus semantics over AMQP 1.0: authorisation, management, messages, settlement, sessions, recovery.
