//! A line between client and emulator that takes its time, or swallows what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use servicebus::{Client, ClientOptions, Connect, Connecting};
use servicebus_amqp::engine::{Config, Side};
use servicebus_amqp::net::Connection;
use servicebus_emulator::Emulator;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;

/// What connections over the line have in common.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// How long it takes to the emulator, and back.
    there: Duration,
    back: Duration,
    connections: Arc<AtomicUsize>,
    /// How many of them, from the first, are cut.
    cut: Arc<AtomicUsize>,
}

impl Line {
    /// What comes back comes this much later.
    pub(crate) fn delaying(delay: Duration) -> Self {
        Self {
            there: Duration::ZERO,
            back: delay,
            connections: Arc::default(),
            cut: Arc::default(),
        }
    }

    /// What goes either way arrives this much later.
    pub(crate) fn of_length(delay: Duration) -> Self {
        Self {
            there: delay,
            ..Self::delaying(delay)
        }
    }

    /// Nothing comes back any more on the connections that there are.
    pub(crate) fn cut(&self) {
        let all = self.connections.load(Ordering::Acquire);
        self.cut.store(all, Ordering::Release);
    }

    #[allow(
        clippy::unwrap_used,
        reason = "the emulator makes good connection strings"
    )]
    pub(crate) fn client(&self, emulator: &Arc<Emulator>, options: ClientOptions) -> Client {
        let connector: Arc<dyn Connect> = Arc::new(Over {
            line: self.clone(),
            emulator: Arc::clone(emulator),
        });
        let options = options.connector(connector);
        Client::from_connection_string_with(&emulator.connection_string(), options).unwrap()
    }

    async fn carry(self, near: DuplexStream, far: impl AsyncRead + AsyncWrite) {
        let number = self.connections.fetch_add(1, Ordering::AcqRel);
        let (near_read, near_write) = tokio::io::split(near);
        let (far_read, far_write) = tokio::io::split(far);
        let there = carry(near_read, far_write, self.there, || true);
        let back = carry(far_read, near_write, self.back, || {
            number >= self.cut.load(Ordering::Acquire)
        });
        tokio::select! {
            () = there => {}
            () = back => {}
        }
    }
}

/// Carries what is read to where it is written, this much later, while the line is whole.
async fn carry(
    mut read: impl AsyncRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
    delay: Duration,
    is_whole: impl Fn() -> bool,
) {
    let (under_way, mut arriving) = tokio::sync::mpsc::unbounded_channel();
    let leave = async move {
        loop {
            let mut bytes = vec![0; 8192];
            match read.read(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(count) => bytes.truncate(count),
            }
            let _ = under_way.send((Instant::now() + delay, bytes));
        }
    };
    let arrive = async {
        while let Some((at, bytes)) = arriving.recv().await {
            if !delay.is_zero() {
                tokio::time::sleep_until(at).await;
            }
            if is_whole() && write.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(leave, arrive);
}

struct Over {
    line: Line,
    emulator: Arc<Emulator>,
}

impl Connect for Over {
    fn connect(&self, config: Config) -> Connecting<'_> {
        Box::pin(async {
            let (near, client) = tokio::io::duplex(64 * 1024);
            tokio::spawn(self.line.clone().carry(near, self.emulator.connect()));
            let connection = Connection::over(client, Side::Client, config);
            connection.opened().await?;
            Ok(connection)
        })
    }
}

impl std::fmt::Debug for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.line.fmt(f)
    }
}
