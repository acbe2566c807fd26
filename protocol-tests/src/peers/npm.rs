//! JavaScript peers, installed from npm into the target folder.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::folders::{filled_once, script};
use super::{Process, Unavailable};

/// Ten seconds are usual.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);

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
        let node = Command::new("node").arg("--version").output();
        node.map_err(|error| Unavailable::new(program, format!("node: {error}")))?;
        filled_once(name, |folder| {
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--no-update-notifier"])
                .args(["--ignore-scripts", "--fetch-retries=1", "--prefix"])
                .arg(folder)
                .args(packages);
            Process::start(&mut npm)?
                .wait_for_success(INSTALL_LIMIT)
                .map_err(|failure| format!("npm install: {failure}").into())
        })
        .map(|folder| Self { folder })
        .map_err(|failure| Unavailable::new(program, failure))
    }

    /// The folder in which Node finds the packages.
    pub fn modules(&self) -> PathBuf {
        self.folder.join("node_modules")
    }

    /// A command that runs a script of this package's `peers` folder; it finds the packages by `require`.
    fn node(&self, name: &str) -> Command {
        let mut command = Command::new("node");
        command.arg(script(name)).env("NODE_PATH", self.modules());
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

/// The Service Bus SDK for JavaScript, with a WebSocket implementation beside it.
#[derive(Debug, Clone)]
pub struct AzureServiceBusNode {
    packages: NodePackages,
}

impl AzureServiceBusNode {
    /// Installs the SDK, unless that is done already.
    ///
    /// # Errors
    /// If Node or npm is missing or npm cannot install it.
    pub fn set_up() -> Result<Self, Unavailable> {
        let packages = NodePackages::set_up(
            "@azure/service-bus",
            "azure-service-bus-7.9.5",
            &["@azure/service-bus@7.9.5", "ws@8.23.0"],
        )?;
        Ok(Self { packages })
    }

    /// The script for a behaviour group; it takes a connection string and the entities.
    pub fn script(&self, group: &str) -> Command {
        self.packages
            .node(&format!("azure_servicebus_js/{group}.js"))
    }
}
