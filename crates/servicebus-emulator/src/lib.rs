//! An embedded Azure Service Bus for tests: queues, topics, sessions, transactions, faults, and a clock you hold.
