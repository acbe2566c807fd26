//! One side of one run, in a process of its own: `servicebus-bench role --peer … --side …`.
//!
//! A listening side first prints `port N`. Both print one [`Report`] as JSON once the last message is through, then
//! close.

mod fe2o3;
mod ramqp;
mod servicebus;
mod tcp;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tokio::net::{TcpListener, TcpStream};

use crate::amqp::Peer;
use crate::measure::Report;

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    peer: Peer,
    #[command(flatten)]
    run: Run,
}

/// What both sides of a run agree on, and which of them this is. The C program takes the same arguments.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    #[arg(long)]
    pub(crate) side: Side,
    /// Listen on a free port of the loopback interface.
    #[arg(long, conflicts_with = "connect", required_unless_present = "connect")]
    pub(crate) listen: bool,
    /// Connect to this port of the loopback interface.
    #[arg(long)]
    pub(crate) connect: Option<u16>,
    #[arg(long)]
    pub(crate) settle: Settle,
    /// Bytes of each message's body.
    #[arg(long)]
    pub(crate) body: usize,
    /// How many messages.
    #[arg(long)]
    pub(crate) count: u64,
    /// How many messages may be in flight: the sender's bound and the receiver's credit.
    #[arg(long)]
    pub(crate) window: u32,
    /// The largest frame, in bytes.
    #[arg(long)]
    pub(crate) max_frame: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Settle {
    /// The receiver accepts each message.
    Unsettled,
    /// The sender settles each message as it sends it.
    Presettled,
}

impl Run {
    /// The arguments that give this run to another process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = match self.connect {
            Some(port) => vec!["--connect".to_owned(), port.to_string()],
            None => vec!["--listen".to_owned()],
        };
        for (name, value) in [
            ("--side", name_of(self.side)),
            ("--settle", name_of(self.settle)),
            ("--body", self.body.to_string()),
            ("--count", self.count.to_string()),
            ("--window", self.window.to_string()),
            ("--max-frame", self.max_frame.to_string()),
        ] {
            arguments.extend([name.to_owned(), value]);
        }
        arguments
    }

    /// The connection to the other side.
    async fn stream(&self) -> anyhow::Result<TcpStream> {
        let stream = if let Some(port) = self.connect {
            TcpStream::connect(("127.0.0.1", port)).await?
        } else {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            println!("port {}", listener.local_addr()?.port());
            std::io::stdout().flush()?;
            listener.accept().await?.0
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// The bytes of each body.
    fn body_bytes(&self) -> Vec<u8> {
        vec![b'x'; self.body]
    }
}

/// Runs one side to its end.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    // One thread, so that CPU time is work and not waiting for the other thread's lock; no peer here is cheaper with two.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (peer, run) = (options.peer, options.run.clone());
    // As a task among the others: what `block_on` itself runs is polled far less often than they are.
    runtime
        .block_on(async { tokio::spawn(async move { play(peer, &run).await }).await })?
        .with_context(|| format!("{} {}", name_of(options.peer), name_of(options.run.side)))
}

async fn play(peer: Peer, run: &Run) -> anyhow::Result<()> {
    match (peer, run.side) {
        (Peer::ServicebusAmqp, Side::Sender) => servicebus::send(run).await,
        (Peer::ServicebusAmqp, Side::Receiver) => servicebus::receive(run).await,
        (Peer::Fe2o3Amqp, Side::Sender) => fe2o3::send(run).await,
        (Peer::Fe2o3Amqp, Side::Receiver) => fe2o3::receive(run).await,
        (Peer::Ramqp, Side::Sender) => ramqp::send(run).await,
        (Peer::Ramqp, Side::Receiver) => ramqp::receive(run).await,
        (Peer::Tcp, Side::Sender) => tcp::send(run).await,
        (Peer::Tcp, Side::Receiver) => tcp::receive(run).await,
        (Peer::ProtonC, _) => anyhow::bail!("Proton C has a program of its own"),
    }
}

/// The name that the command line knows a choice by.
pub(crate) fn name_of(choice: impl ValueEnum) -> String {
    choice
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// Hands the figures to the process that started this one.
fn print(report: &Report) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(report)?);
    std::io::stdout().flush()?;
    Ok(())
}
