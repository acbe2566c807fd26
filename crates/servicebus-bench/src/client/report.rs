use serde::Serialize;

use super::{Case, Entry, Peer};
use crate::measure::{Report, median};
use crate::role::name_of;

/// The figures of one run, or the medians of several.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// Messages per second.
    rate: f64,
    /// CPU time of the client's process per message, in microseconds.
    cpu_us: f64,
    /// Its highest resident memory, in bytes.
    rss: u64,
}

impl From<Report> for Sample {
    fn from(report: Report) -> Self {
        let count = report.count.max(1) as f64;
        Self {
            rate: count * 1e9 / report.elapsed_ns.max(1) as f64,
            cpu_us: report.cpu_ns as f64 / 1e3 / count,
            rss: report.peak_rss,
        }
    }
}

impl Sample {
    fn median(samples: &[Self]) -> Self {
        Self {
            rate: median(samples.iter().map(|sample| sample.rate)),
            cpu_us: median(samples.iter().map(|sample| sample.cpu_us)),
            rss: median(samples.iter().map(|sample| sample.rss)),
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
    #[serde(flatten)]
    figures: Sample,
}

pub(super) fn print_json(series: &[Series]) -> anyhow::Result<()> {
    for Series { entry, samples } in series {
        let line = Line {
            bench: "client",
            peer: name_of(entry.peer),
            case: name_of(entry.case),
            figures: Sample::median(samples),
        };
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

/// One block per case, with each peer's figures and how ours compare.
pub(super) fn print_table(series: &[Series]) {
    for case in &Case::MEASURED {
        let block: Vec<_> = series
            .iter()
            .filter(|series| series.entry.case == *case)
            .map(|series| (series.entry.peer, Sample::median(&series.samples)))
            .collect();
        if block.is_empty() {
            continue;
        }
        println!(
            "{:24} {:>11} {:>9} {:>9}   ours / peer",
            name_of(*case),
            "messages/s",
            "CPU µs",
            "RSS MiB",
        );
        let ours = block
            .iter()
            .find(|(peer, _)| *peer == Peer::Servicebus)
            .map(|(_, sample)| *sample);
        for (peer, sample) in &block {
            let comparison = ours.map_or_else(String::new, |ours| {
                format!(
                    "rate {:.1}, CPU 1/{:.1}",
                    ours.rate / sample.rate,
                    sample.cpu_us / ours.cpu_us,
                )
            });
            println!(
                "  {:22} {:>11.0} {:>9.2} {:>9.1}   {comparison}",
                name_of(*peer),
                sample.rate,
                sample.cpu_us,
                sample.rss as f64 / 1024.0 / 1024.0,
            );
        }
        println!();
    }
}
