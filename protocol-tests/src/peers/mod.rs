//! Foreign programs that speak AMQP 1.0, installed and run for tests.
//!
//! Debian packages are used when present. What comes from npm, pip or cargo sets itself up in the target folder on first use.
//! A program that cannot be had is an [`Unavailable`] with the reason, never a silent skip.

mod cargo;
mod folders;
mod npm;
mod process;
mod proton;
mod python;
mod rabbitmq;

pub use cargo::AzServiceBus;
pub use folders::{filled_once, target_folder};
pub use npm::{AzureServiceBusNode, NodePackages, Rhea};
pub use process::{Finished, Process, run, start_on_free_port};
pub use proton::{ProtonC, ProtonPython};
pub use python::AzureServiceBusTests;
pub use rabbitmq::RabbitMq;

pub(crate) use cargo::cargo_build;

/// Whatever went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Why a foreign program cannot be had on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{program} is not available: {reason}")]
pub struct Unavailable {
    program: &'static str,
    reason: String,
}

impl Unavailable {
    /// Says that `program` cannot be had, and why.
    pub fn new(program: &'static str, reason: impl ToString) -> Self {
        Self {
            program,
            reason: reason.to_string(),
        }
    }
}

/// The first of `paths` that does not exist makes `program` unavailable.
fn require_files(program: &'static str, package: &str, paths: &[&str]) -> Result<(), Unavailable> {
    match paths
        .iter()
        .find(|path| !std::path::Path::new(path).exists())
    {
        Some(path) => Err(Unavailable::new(
            program,
            format!("{path} is missing (Debian package {package})"),
        )),
        None => Ok(()),
    }
}
