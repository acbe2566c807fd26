//! `servicebus-bench client`: every client and case, interleaved in one run against one emulator.
//!
//! Client and emulator are processes of their own. Queues are filled and emptied by our client, unmeasured.

pub(crate) mod load;
mod peers;
mod report;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use servicebus::types::Bytes;
use servicebus::{Client, Message};

use crate::amqp::chosen;
use crate::emulator::Program;
use crate::process::Process;
use crate::role::name_of;
use peers::Peers;
use report::Series;

/// Bytes of each message's body.
pub(crate) const BODY: usize = 1024;
/// How many operations a client that can has under way, and how many messages it fetches ahead.
const IN_FLIGHT: usize = 1000;
/// Messages of a batch.
const PER_BATCH: usize = 100;
/// Messages of a session.
pub(crate) const PER_SESSION: usize = 100;

#[derive(Args)]
pub(crate) struct Options {
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
    /// One short round: shows that it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Rounds; the figures are medians over them.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only these cases.
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,
    /// Only these peers. Those that cannot be had are left out with a warning.
    #[arg(long = "peer", value_enum)]
    peers: Vec<Peer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    Servicebus,
    Azservicebus,
    Python,
    Javascript,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Case {
    /// Single messages, as many at once as the client can.
    Send,
    /// Batches of 100 messages.
    SendBatch,
    /// Fetched ahead, each completed.
    PeekLockComplete,
    /// Fetched ahead, never settled.
    ReceiveAndDelete,
    /// One session after another, each with 100 messages that are completed.
    Session,
    /// What is sent is received and completed by the same client at the same time; what `emulator` measures with.
    #[value(hide = true)]
    Through,
}

impl Case {
    const MEASURED: [Self; 5] = [
        Self::Send,
        Self::SendBatch,
        Self::PeekLockComplete,
        Self::ReceiveAndDelete,
        Self::Session,
    ];

    pub(crate) fn queue(self) -> &'static str {
        if self == Self::Session {
            "sessions"
        } else {
            "queue"
        }
    }

    fn sends(self) -> bool {
        matches!(self, Self::Send | Self::SendBatch)
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    peer: Peer,
    case: Case,
}

impl Entry {
    /// Enough messages for a second or so: the others take up to a hundred times as long for one.
    fn count(self, quick: bool) -> usize {
        let count = match (self.peer, self.case) {
            (Peer::Servicebus, _) => 200_000,
            (Peer::Azservicebus, _) => 20_000,
            (Peer::Javascript, _) => 10_000,
            (Peer::Python, Case::Send) => 2_000,
            (Peer::Python, _) => 5_000,
        };
        if quick { count / 10 } else { count }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let wanted = chosen(&options.peers, Peer::value_variants());
    let peers = Peers::set_up(wanted)?;
    let mut series = Vec::new();
    for &case in chosen(&options.cases, &Case::MEASURED) {
        for &peer in wanted.iter().filter(|peer| peers.has(**peer)) {
            series.push(Series::new(Entry { peer, case }));
        }
    }
    runtime.block_on(measure(options, &peers, &mut series))?;
    if options.json {
        report::print_json(&series)
    } else {
        report::print_table(&series);
        Ok(())
    }
}

async fn measure(options: &Options, peers: &Peers, series: &mut Vec<Series>) -> anyhow::Result<()> {
    let emulator = Program::start().await?;
    let client = Client::from_connection_string(emulator.connection_string())?;
    let rounds = if options.quick { 1 } else { options.rounds };
    for round in 1..=rounds {
        for series in series.iter_mut() {
            let Entry { peer, case } = series.entry;
            eprint!(
                "\rround {round} of {rounds}: {:40}\r",
                format!("{} {}", name_of(peer), name_of(case))
            );
            let count = series.entry.count(options.quick);
            if !case.sends() {
                fill(&client, case.queue(), count).await?;
            }
            let command = peers.command(peer, emulator.connection_string(), case, count)?;
            let report = async { Process::start(command)?.report().await }.await;
            match report.with_context(|| format!("{} {}", name_of(peer), name_of(case))) {
                Ok(report) => series.samples.push(report.into()),
                Err(error) if peer == Peer::Servicebus => return Err(error),
                Err(error) => eprintln!("\nleft out: {error:#}"),
            }
            // Of sessions, a client that failed can leave some.
            if case != Case::Session {
                client.deleting_receiver(case.queue()).purge(None).await?;
            }
        }
        series.retain(|series| !series.samples.is_empty());
    }
    eprint!("\r{:60}\r", "");
    client.close().await;
    Ok(())
}

/// Puts messages into a queue, of sessions of [`PER_SESSION`] each.
pub(crate) async fn fill(client: &Client, queue: &str, count: usize) -> anyhow::Result<()> {
    let body = Bytes::from(vec![b'x'; BODY]);
    let messages = (0..count).map(|number| {
        Message::new(body.clone()).session_id(format!("session-{}", number / PER_SESSION))
    });
    client.sender(queue).send_all(messages).await?;
    Ok(())
}
