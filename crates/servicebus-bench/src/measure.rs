use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Wall and CPU time of this process from [`start`](Self::start) to [`stop`](Self::stop).
pub(crate) struct Meter {
    wall: Instant,
    cpu: Duration,
}

/// What one side of a run measured; the line a role prints at its end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// How many messages went by.
    pub(crate) count: u64,
    /// From the first message to the last.
    pub(crate) elapsed_ns: u64,
    /// CPU time of the whole process in the same span.
    pub(crate) cpu_ns: u64,
    /// The process's highest resident memory, in bytes.
    pub(crate) peak_rss: u64,
}

impl Report {
    /// Messages per second.
    pub(crate) fn rate(&self) -> f64 {
        self.count as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// CPU time per message, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.count.max(1) as f64
    }
}

/// What is measured in rounds, and what each round gave.
pub(crate) struct Series<E, F> {
    pub(crate) entry: E,
    pub(crate) rounds: Vec<F>,
}

impl<E, F> Series<E, F> {
    pub(crate) fn new(entry: E) -> Self {
        Self {
            entry,
            rounds: Vec::new(),
        }
    }
}

/// Shows on the terminal what is being measured; an empty text clears the line.
pub(crate) fn progress(text: &str) {
    eprint!("\r{text:72}\r");
}

impl Meter {
    pub(crate) fn start() -> Self {
        let wall = Instant::now();
        Self {
            wall,
            cpu: clock(ClockId::ProcessCPUTime),
        }
    }

    pub(crate) fn stop(self, count: u64) -> anyhow::Result<Report> {
        let cpu = clock(ClockId::ProcessCPUTime).saturating_sub(self.cpu);
        let elapsed = self.wall.elapsed();
        Ok(Report {
            count,
            elapsed_ns: nanoseconds(elapsed),
            cpu_ns: nanoseconds(cpu),
            peak_rss: status_bytes("VmHWM")?,
        })
    }
}

/// CPU time of this thread, which other processes do not disturb as they do the clock on the wall.
pub(crate) fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A memory figure of this process by its name in `/proc/self/status`.
pub(crate) fn status_bytes(name: &str) -> anyhow::Result<u64> {
    status_bytes_of(std::process::id(), name)
}

/// A memory figure of a process.
pub(crate) fn status_bytes_of(process: u32, name: &str) -> anyhow::Result<u64> {
    std::fs::read_to_string(format!("/proc/{process}/status"))
        .context("this needs Linux's /proc")?
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .find_map(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .with_context(|| format!("no {name} in the status of process {process}"))
}

/// How long the threads of a process have run, to the nanosecond.
pub(crate) fn cpu_time_of(process: u32) -> anyhow::Result<Duration> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let line = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let ran = line.split(' ').next().unwrap_or_default();
        sum += ran
            .parse::<u64>()
            .context("the kernel keeps no schedstat")?;
    }
    Ok(Duration::from_nanos(sum))
}

/// The middle of some values; of none, the default.
pub(crate) fn median<T: PartialOrd + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<_> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let middle = values.len() / 2;
    values.into_iter().nth(middle).unwrap_or_default()
}
