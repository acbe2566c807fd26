//! `servicebus-bench all`: every benchmark in one run, and a report of it.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use clap::Args;

use crate::record::{Measured, Missing, Record, read_json, write_json};
use crate::report::{self, Machine};

#[derive(Args)]
pub(crate) struct Options {
    /// Write the figures as a page in Markdown, with charts and the JSON lines in a folder beside it.
    #[arg(long, value_name = "FILE.md")]
    report: Option<PathBuf>,
    /// Replace the tables between the marks `<!-- client -->`, `<!-- amqp -->` and `<!-- end -->` of this file.
    #[arg(long, value_name = "FILE.md")]
    readme: Option<PathBuf>,
    /// Measure nothing, and take the JSON lines of earlier runs from these files.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["quick", "rounds"])]
    from: Vec<PathBuf>,
    /// One short round: shows that it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Rounds of `amqp` and `client`; the figures are medians over them.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<Vec<Record>> {
    let records = if options.from.is_empty() {
        measure(options)?
    } else {
        let mut records = Vec::new();
        for path in &options.from {
            let named = || path.display().to_string();
            let text = fs::read_to_string(path).with_context(named)?;
            records.extend(read_json(&text).with_context(named)?);
        }
        records
    };
    if let Some(page) = &options.report {
        let measured = Measured::from(&*records);
        report::write(&measured, page)?;
        let file = File::create(report::folder(page).join("figures.jsonl"))?;
        write_json(&records, BufWriter::new(file))?;
    }
    if let Some(readme) = &options.readme {
        report::write_readme(&Measured::from(&*records), readme)?;
    }
    for record in &records {
        if let Record::Missing(Missing {
            from,
            peer: None,
            why,
        }) = record
        {
            bail!("without {from}: {why}");
        }
    }
    Ok(records)
}

/// Runs each benchmark as a process of its own, so that none finds the heap that another left.
///
/// One that fails is missing in the report; the others are not lost with it.
fn measure(options: &Options) -> anyhow::Result<Vec<Record>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let mut records = vec![Record::Machine(Machine::here(arguments.join(" ")))];
    let rounds = options.rounds.to_string();
    let rounds = ["--rounds", &*rounds];
    let quick: &[_] = if options.quick { &["--quick"] } else { &[] };
    for (name, arguments) in [
        ("codec", Vec::new()),
        ("memory", Vec::new()),
        ("amqp", [&rounds, quick].concat()),
        ("client", [&rounds, quick].concat()),
        ("emulator", quick.to_vec()),
    ] {
        match benchmark(name, &arguments) {
            Ok(lines) => records.extend(lines),
            Err(error) => records.push(Record::Missing(Missing {
                from: name.to_owned(),
                peer: None,
                why: format!("{error:#}"),
            })),
        }
    }
    Ok(records)
}

fn benchmark(name: &str, arguments: &[&str]) -> anyhow::Result<Vec<Record>> {
    let output = Command::new(std::env::current_exe()?)
        .args([name, "--json"])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    read_json(&String::from_utf8(output.stdout)?)
}
