use clap::ValueEnum as _;
use serde::Serialize;

use super::{Case, Entry, Peer};
use crate::measure::{Report, median};
use crate::role::name_of;

/// The figures of one entry in one round; of several rounds, the medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// Messages per second, as the slower side saw it.
    rate: f64,
    /// CPU time per message, in microseconds.
    sender_cpu_us: f64,
    receiver_cpu_us: f64,
    /// Highest resident memory, in bytes.
    sender_rss: u64,
    receiver_rss: u64,
}

impl Sample {
    pub(super) fn new(sender: &Report, receiver: &Report) -> Self {
        let rate = |report: &Report| report.count as f64 * 1e9 / report.elapsed_ns.max(1) as f64;
        let cpu_us = |report: &Report| report.cpu_ns as f64 / 1e3 / report.count.max(1) as f64;
        Self {
            rate: rate(sender).min(rate(receiver)),
            sender_cpu_us: cpu_us(sender),
            receiver_cpu_us: cpu_us(receiver),
            sender_rss: sender.peak_rss,
            receiver_rss: receiver.peak_rss,
        }
    }

    fn median(samples: &[Self]) -> Self {
        Self {
            rate: median(samples.iter().map(|sample| sample.rate)),
            sender_cpu_us: median(samples.iter().map(|sample| sample.sender_cpu_us)),
            receiver_cpu_us: median(samples.iter().map(|sample| sample.receiver_cpu_us)),
            sender_rss: median(samples.iter().map(|sample| sample.sender_rss)),
            receiver_rss: median(samples.iter().map(|sample| sample.receiver_rss)),
        }
    }
}

/// An entry and what its rounds gave.
pub(super) struct Series {
    pub(super) entry: Entry,
    pub(super) samples: Vec<Sample>,
}

impl Series {
    pub(super) fn new(entry: Entry) -> Self {
        Self {
            entry,
            samples: Vec::new(),
        }
    }
}

#[derive(Serialize)]
struct Line {
    bench: &'static str,
    peer: String,
    case: String,
    body: usize,
    #[serde(flatten)]
    figures: Sample,
}

pub(super) fn print_json(series: &[Series]) -> anyhow::Result<()> {
    for Series { entry, samples } in series {
        let line = Line {
            bench: "amqp",
            peer: name_of(entry.peer),
            case: name_of(entry.case),
            body: entry.body,
            figures: Sample::median(samples),
        };
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

/// One block per case and size, with each peer's figures and how ours compare.
pub(super) fn print_table(series: &[Series]) {
    for case in Case::value_variants() {
        let mut bodies: Vec<_> = series.iter().map(|series| series.entry.body).collect();
        bodies.sort_unstable();
        bodies.dedup();
        for body in bodies {
            let block: Vec<_> = series
                .iter()
                .filter(|series| series.entry.case == *case && series.entry.body == body)
                .map(|series| (series.entry.peer, Sample::median(&series.samples)))
                .collect();
            if !block.is_empty() {
                print_block(*case, body, &block);
            }
        }
    }
}

fn print_block(case: Case, body: usize, block: &[(Peer, Sample)]) {
    println!(
        "{:24} {:>11} {:>9} {:>9} {:>8} {:>8}   ours / peer",
        format!("{}, {body} B", name_of(case)),
        "messages/s",
        "send µs",
        "recv µs",
        "send MiB",
        "recv MiB",
    );
    let mib = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
    let ours = block
        .iter()
        .find(|(peer, _)| *peer == Peer::ServicebusAmqp)
        .map(|(_, sample)| *sample);
    for (peer, sample) in block {
        let comparison = ours.map_or_else(String::new, |ours| {
            format!(
                "rate {:.2}, CPU {:.2} sending, {:.2} receiving",
                ours.rate / sample.rate,
                ours.sender_cpu_us / sample.sender_cpu_us,
                ours.receiver_cpu_us / sample.receiver_cpu_us,
            )
        });
        println!(
            "  {:22} {:>11.0} {:>9.2} {:>9.2} {:>8.1} {:>8.1}   {comparison}",
            name_of(*peer),
            sample.rate,
            sample.sender_cpu_us,
            sample.receiver_cpu_us,
            mib(sample.sender_rss),
            mib(sample.receiver_rss),
        );
    }
    println!();
}
