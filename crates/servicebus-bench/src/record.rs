//! What the benchmarks measured, in the form in which `--json` prints it and `all --from` reads it again.

use std::io::Write;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::report::Machine;
use crate::{amqp, client, codec, emulator, memory};

/// One line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "bench", rename_all = "lowercase")]
pub(crate) enum Record {
    /// Where and when the others were measured; what `all` begins with.
    Machine(Machine),
    Codec(codec::Line),
    Amqp(amqp::Line),
    Memory(memory::Line),
    Client(client::Line),
    Emulator(emulator::Line),
    Missing(Missing),
}

/// What should have been measured and was not.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Missing {
    /// The benchmark.
    pub(crate) from: String,
    /// The peer, or else all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<String>,
    pub(crate) why: String,
}

impl Missing {
    /// Says at once on the terminal that a peer is left out of a benchmark.
    pub(crate) fn peer(from: &str, peer: String, error: &anyhow::Error) -> Self {
        eprintln!("\nwithout {peer}: {error:#}");
        Self {
            from: from.to_owned(),
            peer: Some(peer),
            why: format!("{error:#}"),
        }
    }
}

/// Records by benchmark.
#[derive(Default)]
pub(crate) struct Measured<'a> {
    pub(crate) machine: Option<&'a Machine>,
    pub(crate) codec: Vec<&'a codec::Line>,
    pub(crate) amqp: Vec<&'a amqp::Line>,
    pub(crate) memory: Vec<&'a memory::Line>,
    pub(crate) client: Vec<&'a client::Line>,
    pub(crate) emulator: Vec<&'a emulator::Line>,
    pub(crate) missing: Vec<&'a Missing>,
}

impl<'a> From<&'a [Record]> for Measured<'a> {
    fn from(records: &'a [Record]) -> Self {
        let mut measured = Self::default();
        for record in records {
            match record {
                Record::Machine(machine) => measured.machine = Some(machine),
                Record::Codec(line) => measured.codec.push(line),
                Record::Amqp(line) => measured.amqp.push(line),
                Record::Memory(line) => measured.memory.push(line),
                Record::Client(line) => measured.client.push(line),
                Record::Emulator(line) => measured.emulator.push(line),
                Record::Missing(missing) => measured.missing.push(missing),
            }
        }
        measured
    }
}

impl Measured<'_> {
    /// The name of each benchmark and its tables, empty for those that were not run.
    pub(crate) fn tables(&self) -> [(&'static str, String); 5] {
        [
            ("client", client::tables(&self.client)),
            ("amqp", amqp::tables(&self.amqp)),
            ("codec", codec::tables(&self.codec)),
            ("memory", memory::tables(&self.memory)),
            ("emulator", emulator::tables(&self.emulator)),
        ]
    }
}

pub(crate) fn read_json(text: &str) -> anyhow::Result<Vec<Record>> {
    let read =
        |(number, line)| serde_json::from_str(line).with_context(|| format!("line {}", number + 1));
    text.lines().enumerate().map(read).collect()
}

pub(crate) fn write_json(records: &[Record], mut out: impl Write) -> anyhow::Result<()> {
    for record in records {
        serde_json::to_writer(&mut out, record)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}
