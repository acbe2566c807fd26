use std::fmt::Write as _;

use clap::ValueEnum as _;
use serde::{Deserialize, Serialize};

use super::{Case, Entry, Peer};
use crate::measure::{Report, median};
use crate::role::name_of;
use crate::table::{Table, figure, mib, thousands, times};

/// A peer in a case with a size.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) peer: String,
    pub(crate) case: String,
    pub(crate) body: usize,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// What one round gave; of several, the medians.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Messages per second, as the slower side saw it.
    pub(crate) rate: f64,
    /// CPU time per message, in microseconds.
    pub(crate) sender_cpu_us: f64,
    pub(crate) receiver_cpu_us: f64,
    /// Highest resident memory, in bytes.
    pub(crate) sender_rss: u64,
    pub(crate) receiver_rss: u64,
}

impl Figures {
    pub(super) fn new(sender: &Report, receiver: &Report) -> Self {
        Self {
            rate: sender.rate().min(receiver.rate()),
            sender_cpu_us: sender.cpu_us(),
            receiver_cpu_us: receiver.cpu_us(),
            sender_rss: sender.peak_rss,
            receiver_rss: receiver.peak_rss,
        }
    }

    fn median(rounds: &[Self]) -> Self {
        Self {
            rate: median(rounds.iter().map(|round| round.rate)),
            sender_cpu_us: median(rounds.iter().map(|round| round.sender_cpu_us)),
            receiver_cpu_us: median(rounds.iter().map(|round| round.receiver_cpu_us)),
            sender_rss: median(rounds.iter().map(|round| round.sender_rss)),
            receiver_rss: median(rounds.iter().map(|round| round.receiver_rss)),
        }
    }
}

impl Line {
    pub(super) fn new(entry: Entry, rounds: &[Figures]) -> Self {
        Self {
            peer: name_of(entry.peer),
            case: name_of(entry.case),
            body: entry.body,
            figures: Figures::median(rounds),
        }
    }
}

/// One table per case and size, with each peer's figures and how many times ours they are.
pub(crate) fn tables(lines: &[&Line]) -> String {
    let mut bodies: Vec<_> = lines.iter().map(|line| line.body).collect();
    bodies.sort_unstable();
    bodies.dedup();
    let mut text = String::new();
    for case in Case::value_variants() {
        let case = name_of(*case);
        for body in &bodies {
            let table = table(lines, &case, *body).to_string();
            if !table.is_empty() {
                let body = thousands(*body as f64);
                let _ = writeln!(text, "**{case}, {body} bytes**\n\n{table}");
            }
        }
    }
    text
}

/// The table of what the README quotes: unsettled messages of 1 KB.
pub(crate) fn readme_table(lines: &[&Line]) -> Table {
    table(lines, &name_of(Case::Unsettled), 1024)
}

fn table(lines: &[&Line], case: &str, body: usize) -> Table {
    let lines = lines.iter().copied();
    let block: Vec<_> = lines
        .filter(|line| line.case == case && line.body == body)
        .collect();
    let mut table = Table::new([
        "peer",
        "messages/s",
        "× ours",
        "µs to send",
        "× ours",
        "µs to receive",
        "× ours",
        "MiB sending",
        "MiB receiving",
    ]);
    let own_name = name_of(Peer::ServicebusAmqp);
    let ours = block.iter().find(|line| line.peer == own_name);
    for line in &block {
        let figures = &line.figures;
        let to_ours = |of: fn(&Figures) -> f64| match ours {
            Some(ours) if ours.peer != line.peer => times(of(figures), of(&ours.figures)),
            _ => String::new(),
        };
        table.row([
            line.peer.clone(),
            thousands(figures.rate),
            to_ours(|figures| figures.rate),
            figure(figures.sender_cpu_us),
            to_ours(|figures| figures.sender_cpu_us),
            figure(figures.receiver_cpu_us),
            to_ours(|figures| figures.receiver_cpu_us),
            mib(figures.sender_rss as f64),
            mib(figures.receiver_rss as f64),
        ]);
    }
    table
}
