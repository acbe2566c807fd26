use std::time::Duration;

/// How long links and connections may do nothing, on the emulator's clock. By default for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleTimes {
    /// A link without traffic is detached after this time with `amqp:link:detach-forced`. The service has 10 minutes.
    ///
    /// A link is not idle while messages that it delivered are locked, nor while the lock of its session is renewed.
    pub link: Option<Duration>,
    /// A connection without links is closed after this time with `amqp:connection:forced`. The service has 5 minutes.
    pub connection: Option<Duration>,
}

impl IdleTimes {
    /// Those of the service.
    pub const fn service() -> Self {
        Self {
            link: Some(Duration::from_secs(600)),
            connection: Some(Duration::from_secs(300)),
        }
    }
}
