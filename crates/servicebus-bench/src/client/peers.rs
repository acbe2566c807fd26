//! The programs of the other clients, set up in the target folder on first use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Error, ensure};
use protocol_tests::peers::{NodePackages, filled_once, target_folder};

use super::{Case, Peer};
use crate::emulator::cargo;
use crate::record::Missing;
use crate::role::name_of;

/// The version of `azure-servicebus`.
pub(crate) const PYTHON_SDK: &str = "7.15.0";
/// The version of `@azure/service-bus`.
pub(crate) const JAVASCRIPT_SDK: &str = "7.9.5";

/// The clients that can be had here.
pub(super) struct Peers {
    own: PathBuf,
    azservicebus: Option<PathBuf>,
    python: Option<PathBuf>,
    javascript: Option<PathBuf>,
}

impl Peers {
    /// Builds and installs what is wanted; says which cannot be had, and why.
    pub(super) fn set_up(wanted: &[Peer], missing: &mut Vec<Missing>) -> anyhow::Result<Self> {
        let mut had = |peer: Peer, set_up: fn() -> anyhow::Result<PathBuf>| {
            if !wanted.contains(&peer) {
                return None;
            }
            set_up()
                .map_err(|error| missing.push(Missing::peer("client", name_of(peer), &error)))
                .ok()
        };
        Ok(Self {
            own: std::env::current_exe()?,
            azservicebus: had(Peer::Azservicebus, azservicebus),
            python: had(Peer::Python, python),
            javascript: had(Peer::Javascript, javascript),
        })
    }

    pub(super) fn has(&self, peer: Peer) -> bool {
        match peer {
            Peer::Servicebus => true,
            Peer::Azservicebus => self.azservicebus.is_some(),
            Peer::Python => self.python.is_some(),
            Peer::Javascript => self.javascript.is_some(),
        }
    }

    /// The client in one case. All take the same arguments and print a report.
    pub(super) fn command(
        &self,
        peer: Peer,
        connection_string: &str,
        case: Case,
        count: usize,
    ) -> anyhow::Result<tokio::process::Command> {
        let path = |path: &Option<PathBuf>| path.clone().context("it was not set up");
        let mut command = match peer {
            Peer::Servicebus => {
                let mut command = tokio::process::Command::new(&self.own);
                command.arg("load");
                command
            }
            Peer::Azservicebus => tokio::process::Command::new(path(&self.azservicebus)?),
            Peer::Python => {
                let mut command = tokio::process::Command::new(path(&self.python)?);
                command.arg(source("servicebus.py"));
                command
            }
            Peer::Javascript => {
                let mut command = tokio::process::Command::new("node");
                command
                    .arg(source("servicebus.js"))
                    .env("NODE_PATH", path(&self.javascript)?);
                command
            }
        };
        command
            .args([connection_string, &name_of(case), case.queue()])
            .arg(count.to_string());
        Ok(command)
    }
}

/// A file of this package's `peers` folder.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name)
}

/// The program in `peers/azservicebus`.
fn azservicebus() -> anyhow::Result<PathBuf> {
    let folder = target_folder()
        .map_err(Error::from_boxed)?
        .join("peers/azservicebus");
    cargo(&source("azservicebus/Cargo.toml"), &folder, &[])?;
    Ok(folder.join("release/azservicebus-bench"))
}

/// A Python interpreter that has the SDK.
fn python() -> anyhow::Result<PathBuf> {
    let folder = filled_once(&format!("python-azure-servicebus-{PYTHON_SDK}"), |folder| {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        succeed(
            Command::new(folder.join("bin/python"))
                .args(["-m", "pip", "--quiet", "--disable-pip-version-check"])
                .args(["install", &format!("azure-servicebus=={PYTHON_SDK}")]),
        )?;
        Ok(())
    });
    let folder = folder.map_err(Error::from_boxed)?;
    Ok(folder.join("bin/python"))
}

/// A folder of packages for Node, with the SDK.
fn javascript() -> anyhow::Result<PathBuf> {
    let packages = NodePackages::set_up(
        "@azure/service-bus",
        &format!("node-azure-service-bus-{JAVASCRIPT_SDK}"),
        &[&format!("@azure/service-bus@{JAVASCRIPT_SDK}")],
    )?;
    Ok(packages.modules())
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| name.clone())?;
    ensure!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
