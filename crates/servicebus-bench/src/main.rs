//! Side-by-side measurements of `servicebus` against other AMQP 1.0 stacks.
//!
//! Every figure comes with its yardstick: the peers run interleaved in one run on the same machine, each side of a
//! connection in a process of its own. CPU time is read from the process clock between the first message and the last,
//! peak memory from `/proc/self/status`, so the program needs Linux.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "a program that measures time reads the clock"
)]

mod all;
mod amqp;
mod client;
mod codec;
mod emulator;
mod measure;
mod memory;
mod process;
mod record;
mod report;
mod role;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use record::{Measured, Record};

#[derive(Parser)]
#[command(
    about = "Side-by-side measurements against other AMQP 1.0 stacks and Service Bus clients"
)]
struct Cli {
    /// Print JSON lines instead of tables.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Messages over loopback TCP: rate, CPU time of each side, peak memory.
    Amqp(amqp::Options),
    /// The codec against `serde_amqp`: time and allocations per operation.
    Codec,
    /// Idle connections and links: memory and CPU time.
    Memory,
    /// The Service Bus client against other clients: rate, CPU time and peak memory of the client's process.
    Client(client::Options),
    /// The emulator: start, CPU time per message, memory of what it holds.
    Emulator(emulator::Options),
    /// All of these, as a report with charts.
    All(all::Options),
    /// Our client in one case; what `client` and `emulator` start.
    #[command(hide = true)]
    Load(client::load::Options),
    /// One side of one run; what `amqp` starts.
    #[command(hide = true)]
    Role(role::Options),
}

fn main() -> ExitCode {
    let Cli { json, command } = Cli::parse();
    let result = match command {
        Command::Amqp(options) => amqp::measure(&options),
        Command::Codec => codec::measure(),
        Command::Memory => memory::measure(),
        Command::Client(options) => client::measure(&options),
        Command::Emulator(options) => emulator::measure(&options),
        Command::All(options) => all::run(&options),
        Command::Load(options) => uncounted(|| client::load::run(&options)),
        Command::Role(options) => uncounted(|| role::run(&options)),
    };
    match result.and_then(|records| print(&records, json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("servicebus-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one side of a benchmark with the counters of the allocator off, which are for `codec` and `memory`. It prints its
/// report itself.
fn uncounted(run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Vec<Record>> {
    let mut result = Ok(());
    allocation_counter::opt_out(|| result = run());
    result.map(|()| Vec::new())
}

fn print(records: &[Record], json: bool) -> anyhow::Result<()> {
    if json {
        return record::write_json(records, std::io::stdout().lock());
    }
    let tables = Measured::from(records).tables().map(|(_, tables)| tables);
    let tables: Vec<_> = tables.iter().map(|tables| tables.trim_end()).collect();
    println!("{}", tables.join("\n\n").trim());
    Ok(())
}
