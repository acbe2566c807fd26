use std::fmt::Write as _;

use clap::ValueEnum as _;
use serde::{Deserialize, Serialize};

use super::{Case, Entry, Peer};
use crate::measure::{Report, median};
use crate::role::name_of;
use crate::table::{Table, figure, mib, thousands, times};

/// A client in a case.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) peer: String,
    pub(crate) case: String,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// What one round gave; of several, the medians.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Messages per second.
    pub(crate) rate: f64,
    /// CPU time of the client's process per message, in microseconds.
    pub(crate) cpu_us: f64,
    /// Its highest resident memory, in bytes.
    pub(crate) rss: u64,
}

impl From<Report> for Figures {
    fn from(report: Report) -> Self {
        Self {
            rate: report.rate(),
            cpu_us: report.cpu_us(),
            rss: report.peak_rss,
        }
    }
}

impl Line {
    pub(super) fn new(entry: Entry, rounds: &[Figures]) -> Self {
        Self {
            peer: name_of(entry.peer),
            case: name_of(entry.case),
            figures: Figures {
                rate: median(rounds.iter().map(|round| round.rate)),
                cpu_us: median(rounds.iter().map(|round| round.cpu_us)),
                rss: median(rounds.iter().map(|round| round.rss)),
            },
        }
    }
}

/// A table for each kind of figure: the cases down, the clients across, and in brackets how many times ours it is.
pub(crate) fn tables(lines: &[&Line]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for (title, show, of) in [
        (
            "CPU time of the client per message, in µs",
            figure as fn(f64) -> String,
            (|figures| figures.cpu_us) as fn(&Figures) -> f64,
        ),
        ("messages per second", thousands, |figures| figures.rate),
        ("peak memory of the client, in MiB", mib, |figures| {
            figures.rss as f64
        }),
    ] {
        let _ = writeln!(text, "**{title}**\n\n{}", table(lines, show, of));
    }
    text
}

/// The table that the README quotes: CPU time.
pub(crate) fn readme_table(lines: &[&Line]) -> Table {
    table(lines, figure, |figures| figures.cpu_us)
}

fn table(lines: &[&Line], show: fn(f64) -> String, of: fn(&Figures) -> f64) -> Table {
    let find = |peer: &str, case: &str| {
        let mut lines = lines.iter();
        let line = lines.find(|line| line.peer == peer && line.case == case)?;
        Some(of(&line.figures))
    };
    let own_name = name_of(Peer::Servicebus);
    let peers: Vec<_> = Peer::value_variants()
        .iter()
        .map(|peer| name_of(*peer))
        .filter(|peer| lines.iter().any(|line| line.peer == *peer))
        .collect();
    let mut table = Table::new([String::new()].into_iter().chain(peers.iter().cloned()));
    for case in Case::MEASURED.map(name_of) {
        let ours = find(&own_name, &case);
        let cells: Vec<_> = peers
            .iter()
            .map(|peer| match (find(peer, &case), ours) {
                (Some(value), Some(ours)) if *peer != own_name => {
                    format!("{} ({} ×)", show(value), times(value, ours))
                }
                (Some(value), _) => show(value),
                (None, _) => "missing".to_owned(),
            })
            .collect();
        if lines.iter().any(|line| line.case == case) {
            table.row([case].into_iter().chain(cells));
        }
    }
    table
}
