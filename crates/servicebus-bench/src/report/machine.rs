use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::amqp::Peer;
use crate::client;
use crate::role::name_of;
use crate::table::Table;

/// Where, when and against what it was measured. What cannot be found out is "unknown".
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The day, in UTC.
    date: String,
    /// The arguments of this program.
    arguments: String,
    processor: String,
    cores: usize,
    kernel: String,
    /// The average load of the last minute before: near 0 on a machine that does nothing else.
    load: String,
    rustc: String,
    /// The commit, and whether the tree differs from it.
    revision: String,
    /// The versions of what it was compared with.
    peers: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) fn here(arguments: String) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let processor = read("/proc/cpuinfo").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let load = read("/proc/loadavg").and_then(|text| Some(text.split(' ').next()?.to_owned()));
        Self {
            date: time::OffsetDateTime::now_utc().date().to_string(),
            arguments,
            processor: known(processor),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            kernel: known(read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned())),
            load: known(load),
            rustc: known(output("rustc", &["--version"])),
            revision: known(output("git", &["describe", "--always", "--dirty"])),
            peers: peers(),
        }
    }

    /// The table at the head of the report.
    pub(super) fn table(&self) -> Table {
        let Self {
            processor, cores, ..
        } = self;
        let mut peers = String::new();
        for (peer, version) in &self.peers {
            let separator = if peers.is_empty() { "" } else { "; " };
            let _ = write!(peers, "{separator}{peer}: {version}");
        }
        let mut table = Table::new(["", ""]);
        table.row(["date", &*self.date]);
        table.row(["machine", &*format!("{processor}, {cores} cores")]);
        table.row(["load before", &*self.load]);
        table.row(["system", &*format!("Linux {}", self.kernel)]);
        table.row(["compiler", &*self.rustc]);
        table.row(["revision", &*self.revision]);
        table.row(["peers", &*peers]);
        table
    }

    /// What prints the same report with new figures.
    pub(super) fn command(&self) -> String {
        format!(
            "cargo run --release -p servicebus-bench -- {}",
            self.arguments
        )
    }
}

fn peers() -> BTreeMap<String, String> {
    let ours = include_str!("../../../../Cargo.lock");
    let azservicebus = include_str!("../../peers/azservicebus/Cargo.lock");
    let python = output("python3", &["--version"]);
    let node = output("node", &["--version"]);
    let proton = output("pkg-config", &["--modversion", "libqpid-proton"]);
    [
        (name_of(Peer::Fe2o3Amqp), locked(ours, "fe2o3-amqp")),
        (name_of(Peer::Ramqp), locked(ours, "ramqp")),
        (name_of(Peer::ProtonC), proton),
        ("serde_amqp".to_owned(), locked(ours, "serde_amqp")),
        (
            name_of(client::Peer::Azservicebus),
            locked(azservicebus, "azservicebus"),
        ),
        (
            name_of(client::Peer::Python),
            python.map(|python| format!("azure-servicebus {} on {python}", client::PYTHON_SDK)),
        ),
        (
            name_of(client::Peer::Javascript),
            node.map(|node| {
                format!(
                    "@azure/service-bus {} on Node {node}",
                    client::JAVASCRIPT_SDK
                )
            }),
        ),
    ]
    .into_iter()
    .map(|(peer, version)| (peer, known(version)))
    .collect()
}

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| "unknown".to_owned())
}

/// The version of a package in a lock file.
fn locked(lock: &str, package: &str) -> Option<String> {
    let start = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != start).skip(1);
    let version = lines.next()?.strip_prefix("version = \"")?;
    Some(version.strip_suffix('"')?.to_owned())
}

/// The first line that a program prints, if it is there and ends well.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    let line = String::from_utf8(output.stdout)
        .ok()?
        .lines()
        .next()?
        .to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"ramqp\"\nversion = \"0.8.3\"\n\n[[package]]\nname = \"ramqp-core\"\nversion = \"0.9.0\"\n";
        assert_eq!(locked(lock, "ramqp").as_deref(), Some("0.8.3"));
        assert_eq!(locked(lock, "ramqp-core").as_deref(), Some("0.9.0"));
        assert_eq!(locked(lock, "other"), None);
    }
}
