//! `servicebus-bench amqp`: every peer, case and size, interleaved in one run.

mod figures;
mod proton;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::measure::{Report, Series, progress};
use crate::process;
use crate::record::{Missing, Record};
use crate::role::{Run, Settle, Side, name_of};
use figures::Figures;
pub(crate) use figures::{Line, readme_table, tables};

/// What may be in flight in the unsettled case, unless bodies are so large that [`IN_FLIGHT_BYTES`] is less.
const IN_FLIGHT: u32 = 1000;
const IN_FLIGHT_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) const BODIES: [usize; 4] = [64, 1024, 65_536, 1_048_576];

#[derive(Args)]
pub(crate) struct Options {
    /// One short round: shows that it works, not how fast it is.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; the figures are medians over them.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// The largest frame that all peers accept, in bytes. By default each body fits one; with the 64 KiB of Azure Service
    /// Bus all receivers have to put large bodies together.
    #[arg(long, default_value_t = 2 * 1024 * 1024)]
    pub(crate) max_frame: u32,
    /// Only these cases.
    #[arg(long = "case", value_enum)]
    pub(crate) cases: Vec<Case>,
    /// Only bodies of these sizes, in bytes.
    #[arg(long = "body")]
    pub(crate) bodies: Vec<usize>,
    /// Only these peers.
    #[arg(long = "peer", value_enum)]
    pub(crate) peers: Vec<Peer>,
}

/// What is measured: two processes of one stack, or a stack and its partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    ServicebusAmqp,
    #[value(name = "fe2o3-amqp")]
    Fe2o3Amqp,
    Ramqp,
    ProtonC,
    /// The same bytes without a protocol.
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// 1,000 in flight (64 of 1 MB), each accepted by the receiver.
    Unsettled,
    /// Settled as they are sent.
    Presettled,
    /// One at a time: the next is sent when the last is accepted.
    Latency,
}

impl Case {
    /// Without a protocol there is one way to copy, and per-message costs of small bodies mean nothing.
    pub(crate) fn makes_sense(self, peer: Peer, body: usize) -> bool {
        peer != Peer::Tcp || self == Self::Latency || body >= 65_536
    }
}

/// One line of the table: a peer in a case with a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    peer: Peer,
    case: Case,
    body: usize,
}

impl Entry {
    fn window(self) -> u32 {
        if self.case == Case::Latency {
            return 1;
        }
        let fitting = IN_FLIGHT_BYTES / self.body.max(1) as u64;
        IN_FLIGHT
            .min(u32::try_from(fitting).unwrap_or(u32::MAX))
            .max(1)
    }

    /// Enough messages for a run of about half a second.
    fn count(self, quick: bool) -> u64 {
        let count = match (self.case, self.body) {
            (Case::Latency, ..=4096) => 20_000,
            (Case::Latency, ..=131_072) => 5_000,
            (Case::Latency, _) => 500,
            (_, ..=4096) => 200_000,
            (_, ..=131_072) => 10_000,
            _ => 1_000,
        };
        if quick { count / 10 } else { count }
    }

    fn run(self, side: Side, options: &Options) -> Run {
        Run {
            side,
            listen: true,
            connect: None,
            settle: if self.case == Case::Presettled {
                Settle::Presettled
            } else {
                Settle::Unsettled
            },
            body: self.body,
            count: self.count(options.quick),
            window: self.window(),
            max_frame: options.max_frame,
        }
    }
}

/// Runs everything that the options choose, in rounds.
pub(crate) fn measure(options: &Options) -> anyhow::Result<Vec<Record>> {
    let mut lines = Vec::new();
    let entries = options.entries();
    let wants_proton = entries.iter().any(|entry| entry.peer == Peer::ProtonC);
    let programs = Programs::find(wants_proton, &mut lines)?;
    let mut series: Vec<_> = entries
        .into_iter()
        .filter(|entry| programs.can_run(entry.peer))
        .map(Series::new)
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let rounds = if options.quick { 1 } else { options.rounds };
    for round in 1..=rounds {
        for Series { entry, rounds: had } in &mut series {
            progress(&format!(
                "amqp, round {round} of {rounds}: {} {} {}",
                name_of(entry.peer),
                name_of(entry.case),
                entry.body
            ));
            let figures = runtime
                .block_on(programs.measure(*entry, options))
                .with_context(|| format!("{entry:?}"))?;
            had.push(figures);
        }
    }
    progress("");
    let measured = series
        .iter()
        .map(|series| Line::new(series.entry, &series.rounds));
    lines.extend(measured.map(Record::Amqp));
    Ok(lines)
}

impl Options {
    /// By case and size, the peers next to each other.
    fn entries(&self) -> Vec<Entry> {
        let cases = chosen(&self.cases, Case::value_variants());
        let bodies = chosen(&self.bodies, &BODIES);
        let peers = chosen(&self.peers, Peer::value_variants());
        let mut entries = Vec::new();
        for &case in cases {
            for &body in bodies {
                entries.extend(peers.iter().map(|&peer| Entry { peer, case, body }));
            }
        }
        entries.retain(|entry| entry.case.makes_sense(entry.peer, entry.body));
        entries
    }
}

/// Those chosen on the command line, or else all.
pub(crate) fn chosen<'a, T>(some: &'a [T], all: &'a [T]) -> &'a [T] {
    if some.is_empty() { all } else { some }
}

/// The programs that play the sides: this one, and the compiled C program where Proton is installed.
struct Programs {
    own: PathBuf,
    proton: Option<proton::Program>,
}

impl Programs {
    fn find(wants_proton: bool, missing: &mut Vec<Record>) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let mut proton = None;
        if wants_proton {
            match proton::Program::compile() {
                Ok(program) => proton = Some(program),
                Err(error) => {
                    let peer = name_of(Peer::ProtonC);
                    missing.push(Record::Missing(Missing::peer("amqp", peer, &error)));
                }
            }
        }
        Ok(Self { own, proton })
    }

    fn can_run(&self, peer: Peer) -> bool {
        self.proton.is_some() || peer != Peer::ProtonC
    }

    async fn measure(&self, entry: Entry, options: &Options) -> anyhow::Result<Figures> {
        let sender = (entry.peer, entry.run(Side::Sender, options));
        let receiver = (entry.peer, entry.run(Side::Receiver, options));
        if entry.peer != Peer::Ramqp {
            let [receiver, sender] = self.pair(receiver, sender).await?;
            return Ok(Figures::new(&sender, &receiver));
        }
        // ramqp only connects: each of its sides runs against our listener, and only ramqp's side counts. (Not against
        // Proton C, which ends the session at the delivery-ids that ramqp gives to messages of several frames.)
        let partner = (Peer::ServicebusAmqp, entry.run(Side::Receiver, options));
        let [_, sender] = self.pair(partner, sender).await?;
        let partner = (Peer::ServicebusAmqp, entry.run(Side::Sender, options));
        let [_, receiver] = self.pair(partner, receiver).await?;
        Ok(Figures::new(&sender, &receiver))
    }

    /// Runs a listening and a connecting side against each other.
    async fn pair(
        &self,
        listening: (Peer, Run),
        connecting: (Peer, Run),
    ) -> anyhow::Result<[Report; 2]> {
        process::pair(self.command(listening.0, &listening.1)?, |port| {
            let run = Run {
                listen: false,
                connect: Some(port),
                ..connecting.1
            };
            self.command(connecting.0, &run)
        })
        .await
    }

    fn command(&self, peer: Peer, run: &Run) -> anyhow::Result<tokio::process::Command> {
        let mut command = if peer == Peer::ProtonC {
            let program = self.proton.as_ref().context("Proton C is not installed")?;
            tokio::process::Command::new(program.path())
        } else {
            let mut command = tokio::process::Command::new(&self.own);
            command.args(["role", "--peer", &name_of(peer)]);
            command
        };
        command.args(run.arguments());
        Ok(command)
    }
}
