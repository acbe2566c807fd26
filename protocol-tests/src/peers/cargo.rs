//! Peers in Rust that need a workspace of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::folders::target_folder;
use super::{Failure, Unavailable};

/// azservicebus, in a program of ours that runs one behaviour group.
#[derive(Debug, Clone)]
pub struct AzServiceBus {
    program: PathBuf,
}

impl AzServiceBus {
    /// Builds the program, as far as that is not done already.
    ///
    /// # Errors
    /// If cargo cannot build it.
    pub fn set_up() -> Result<Self, Unavailable> {
        build().map_err(|failure| Unavailable::new("azservicebus", failure))
    }

    /// The program, which takes a connection string, a group and the entities.
    pub fn client(&self) -> Command {
        Command::new(&self.program)
    }
}

fn build() -> Result<AzServiceBus, Failure> {
    let folder = target_folder()?.join("peers/azservicebus");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("azservicebus-peer/Cargo.toml");
    cargo_build(&manifest, &folder, &[])?;
    Ok(AzServiceBus {
        program: folder.join("debug/azservicebus-peer"),
    })
}

/// Builds what `selection` names of the workspace of `manifest` into `folder`.
///
/// # Errors
/// If it does not build.
pub(crate) fn cargo_build(
    manifest: &Path,
    folder: &Path,
    selection: &[&str],
) -> Result<(), Failure> {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(folder)
        .args(selection)
        .output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("cargo build: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
