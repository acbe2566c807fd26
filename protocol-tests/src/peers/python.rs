//! Python peers, installed with pip into a virtual environment in the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::folders::{filled_once, script};
use super::{Failure, Process, Unavailable};

/// For one step of an installation; the longest takes ten seconds on a calm machine.
const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// The live tests of azure-servicebus, as they are in its source distribution, and what they need to run.
#[derive(Debug, Clone)]
pub struct AzureServiceBusTests {
    folder: PathBuf,
}

impl AzureServiceBusTests {
    const PROGRAM: &'static str = "azure-servicebus for Python";
    const VERSION: &'static str = "7.15.0";
    const PACKAGES: [&'static str; 7] = [
        "azure-servicebus==7.15.0",
        "aiohttp==3.14.5",
        "azure-common==1.1.28",
        "pytest==9.2.0",
        "pytest-asyncio==1.5.0",
        "pytest-xdist==3.8.0",
        "websocket-client==1.9.2",
    ];

    /// Installs the SDK and unpacks its tests, unless that is done already.
    ///
    /// # Errors
    /// If Python or its module venv is missing or pip cannot install the packages.
    pub fn set_up() -> Result<Self, Unavailable> {
        filled_once("azure-servicebus-python-7.15.0", |folder| {
            succeed(
                Command::new("python3")
                    .args(["-m", "venv"])
                    .arg(folder.join("venv")),
            )?;
            let pip = || {
                let mut pip = Command::new(python(folder));
                pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
                pip
            };
            succeed(pip().arg("install").args(Self::PACKAGES))?;
            succeed(
                pip()
                    .args(["download", "--no-deps", "--no-binary", ":all:", "--dest"])
                    .arg(folder)
                    .arg(Self::PACKAGES[0]),
            )?;
            let archive = format!("azure_servicebus-{}.tar.gz", Self::VERSION);
            succeed(
                Command::new(python(folder))
                    .args(["-m", "tarfile", "--extract"])
                    .arg(folder.join(archive))
                    .arg(folder),
            )
        })
        .map(|folder| Self { folder })
        .map_err(|failure| Unavailable::new(Self::PROGRAM, failure))
    }

    /// pytest in the folder of the tests, with our stand-ins for the tools they miss; see `peers/azure_servicebus_python`.
    pub fn pytest(&self) -> Command {
        let mut command = Command::new(python(&self.folder));
        command
            .args([
                "-m",
                "pytest",
                "-p",
                "emulator_plugin",
                "-p",
                "no:cacheprovider",
            ])
            .args(["-c", "/dev/null", "--rootdir", "."])
            .current_dir(
                self.folder
                    .join(format!("azure_servicebus-{}", Self::VERSION))
                    .join("tests"),
            )
            .env("PYTHONPATH", script("azure_servicebus_python"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

fn python(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    let name = command.get_program().display().to_string();
    Process::start(command)?
        .wait_for_success(INSTALL_LIMIT)
        .map_err(|failure| format!("{name}: {failure}").into())
}
