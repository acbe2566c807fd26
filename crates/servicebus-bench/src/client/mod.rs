//! `servicebus-bench client`: every client and case, interleaved in one run against one emulator.
//!
//! Client and emulator are processes of their own. Queues are filled and emptied by our client, unmeasured.

mod figures;
pub(crate) mod load;
mod peers;

use clap::{Args, ValueEnum};
use servicebus::types::Bytes;
use servicebus::{Client, Message};

use crate::amqp::chosen;
use crate::emulator::Program;
use crate::measure::{Series, progress};
use crate::process::Process;
use crate::record::{Missing, Record};
use crate::role::name_of;
pub(crate) use figures::{Figures, Line, readme_table, tables};
use peers::Peers;
pub(crate) use peers::{JAVASCRIPT_SDK, PYTHON_SDK};

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
    /// One short round: shows that it works, not how fast it is.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; the figures are medians over them.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Only these cases.
    #[arg(long = "case", value_enum)]
    pub(crate) cases: Vec<Case>,
    /// Only these peers. Those that cannot be had are left out with a warning.
    #[arg(long = "peer", value_enum)]
    pub(crate) peers: Vec<Peer>,
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
    pub(crate) const MEASURED: [Self; 5] = [
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
    /// Enough messages for a second or so: some take up to a hundred times as long for one. The same for both clients in
    /// Rust where they are near each other, for the emulator's memory grows with what is sent and nobody receives.
    fn count(self, quick: bool) -> usize {
        let count = match (self.peer, self.case) {
            (
                Peer::Servicebus | Peer::Azservicebus,
                Case::SendBatch | Case::PeekLockComplete | Case::ReceiveAndDelete,
            ) => 100_000,
            (Peer::Servicebus, _) => 200_000,
            (Peer::Azservicebus, _) => 20_000,
            (Peer::Javascript, _) => 10_000,
            (Peer::Python, Case::Send) => 2_000,
            (Peer::Python, _) => 5_000,
        };
        if quick { count / 10 } else { count }
    }
}

/// Runs everything that the options choose, in rounds.
pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Record>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let wanted = chosen(&options.peers, Peer::value_variants());
    let mut missing = Vec::new();
    let peers = Peers::set_up(wanted, &mut missing)?;
    let mut series = Vec::new();
    for &case in chosen(&options.cases, &Case::MEASURED) {
        for &peer in wanted.iter().filter(|peer| peers.has(**peer)) {
            series.push(Series::new(Entry { peer, case }));
        }
    }
    runtime.block_on(play(options, &peers, &mut series, &mut missing))?;
    let measured = series
        .iter()
        .map(|series| Line::new(series.entry, &series.rounds));
    let missing = missing.into_iter().map(Record::Missing);
    Ok(missing.chain(measured.map(Record::Client)).collect())
}

async fn play(
    options: &Options,
    peers: &Peers,
    series: &mut Vec<Series<Entry, Figures>>,
    missing: &mut Vec<Missing>,
) -> anyhow::Result<()> {
    let emulator = Program::start().await?;
    let client = Client::from_connection_string(emulator.connection_string())?;
    let rounds = if options.quick { 1 } else { options.rounds };
    for round in 1..=rounds {
        for Series { entry, rounds: had } in series.iter_mut() {
            let Entry { peer, case } = *entry;
            let name = format!("{} {}", name_of(peer), name_of(case));
            progress(&format!("client, round {round} of {rounds}: {name}"));
            let count = entry.count(options.quick);
            if !case.sends() {
                fill(&client, case.queue(), count).await?;
            }
            let command = peers.command(peer, emulator.connection_string(), case, count)?;
            match async { Process::start(command)?.report().await }.await {
                Ok(report) => had.push(report.into()),
                Err(error) if peer == Peer::Servicebus => return Err(error.context(name)),
                Err(error) => missing.push(Missing::peer("client", name, &error)),
            }
            // Of sessions, a client that failed can leave some.
            if case != Case::Session {
                client.deleting_receiver(case.queue()).purge(None).await?;
            }
        }
        series.retain(|series| !series.rounds.is_empty());
    }
    progress("");
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
