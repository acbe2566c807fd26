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

mod amqp;
mod client;
mod codec;
mod emulator;
mod measure;
mod memory;
mod process;
mod role;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Side-by-side measurements against other AMQP 1.0 stacks")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Messages over loopback TCP: rate, CPU time of each side, peak memory.
    Amqp(amqp::Options),
    /// The codec against `serde_amqp`: time and allocations per operation.
    Codec(codec::Options),
    /// Idle connections and links: memory and CPU time.
    Memory(memory::Options),
    /// The Service Bus client against other clients: rate, CPU time and peak memory of the client's process.
    Client(client::Options),
    /// The emulator: start, CPU time per message, memory of what it holds.
    Emulator(emulator::Options),
    /// Our client in one case; what `client` and `emulator` start.
    #[command(hide = true)]
    Load(client::load::Options),
    /// One side of one run; what `amqp` starts.
    #[command(hide = true)]
    Role(role::Options),
}

fn main() -> ExitCode {
    let mut result = Ok(());
    // The allocator counts for `codec` and `memory`; the sides of `amqp` run with the counters off.
    match Cli::parse().command {
        Command::Amqp(options) => result = amqp::run(&options),
        Command::Codec(options) => result = codec::run(&options),
        Command::Memory(options) => result = memory::run(&options),
        Command::Client(options) => result = client::run(&options),
        Command::Emulator(options) => result = emulator::run(&options),
        Command::Load(options) => {
            allocation_counter::opt_out(|| result = client::load::run(&options));
        }
        Command::Role(options) => {
            allocation_counter::opt_out(|| result = role::run(&options));
        }
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("servicebus-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
