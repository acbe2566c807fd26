// Included by the examples of the guides: runs one against an emulator of its own, which has what they use.

type Example = Result<(), Box<dyn std::error::Error>>;

fn on_emulator(
    example: impl AsyncFnOnce(servicebus::Client, &servicebus_emulator::Emulator) -> Example,
) -> Example {
    use servicebus_emulator::broker::{QueueOptions, SubscriptionOptions, TopicOptions};

    tokio::runtime::Runtime::new()?.block_on(async {
        let emulator = servicebus_emulator::Emulator::start().await?;
        let namespace = emulator.default_namespace();
        for queue in ["orders", "invoices"] {
            namespace.create_queue(queue, QueueOptions::default())?;
        }
        let mut options = QueueOptions::default();
        options.requires_session = true;
        namespace.create_queue("carts", options)?;
        let mut options = QueueOptions::default();
        options.duplicate_detection = Some(std::time::Duration::from_secs(600));
        namespace.create_queue("payments", options)?;
        namespace.create_topic("events", TopicOptions::default())?;
        namespace.create_subscription("events", "audit", SubscriptionOptions::default())?;

        let client = servicebus::Client::from_connection_string(&emulator.connection_string())?;
        let limit = std::time::Duration::from_secs(60);
        tokio::time::timeout(limit, example(client, &emulator)).await?
    })
}
