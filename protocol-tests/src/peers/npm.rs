//! JavaScript peers, installed from npm into the target folder.

use std::path::PathBuf;
use std::process::Command;

use super::Unavailable;
use super::folders::{filled_once, script};

/// A folder of installed npm packages.
#[derive(Debug, Clone)]
pub struct NodePackages {
    folder: PathBuf,
}

impl NodePackages {
    /// Installs `packages` (such as `rhea@3.0.5`) into the folder `name` of the target folder, unless that is done already.
    ///
    /// # Errors
    /// If Node or npm is missing or npm cannot install them.
    pub fn set_up(
        program: &'static str,
        name: &str,
        packages: &[&str],
    ) -> Result<Self, Unavailable> {
        filled_once(name, |folder| {
            let output = Command::new("npm")
                .args([
                    "install",
                    "--no-audit",
                    "--no-fund",
                    "--no-update-notifier",
                    "--ignore-scripts",
                    "--prefix",
                ])
                .arg(folder)
                .args(packages)
                .output()
                .map_err(|error| format!("npm: {error}"))?;
            if output.status.success() {
                Ok(())
            } else {
                Err(format!("npm install: {}", String::from_utf8_lossy(&output.stderr)).into())
            }
        })
        .map(|folder| Self { folder })
        .map_err(|failure| Unavailable::new(program, failure))
    }

    /// A command that runs a script of this package's `peers` folder; it finds the packages by `require`.
    pub fn node(&self, name: &str) -> Command {
        let mut command = Command::new("node");
        command
            .arg(script(name))
            .env("NODE_PATH", self.folder.join("node_modules"));
        command
    }
}

/// rhea, the JavaScript AMQP stack, with a WebSocket implementation beside it.
#[derive(Debug, Clone)]
pub struct Rhea {
    packages: NodePackages,
}

impl Rhea {
    /// Installs rhea, unless that is done already.
    ///
    /// # Errors
    /// If Node or npm is missing or npm cannot install it.
    pub fn set_up() -> Result<Self, Unavailable> {
        let packages = NodePackages::set_up("rhea", "rhea-3.0.5", &["rhea@3.0.5", "ws@8.23.0"])?;
        Ok(Self { packages })
    }

    /// The scripted client of this package: a request as JSON on its standard input, an answer on its output.
    pub fn client(&self) -> Command {
        self.packages.node("rhea_client.js")
    }
}
