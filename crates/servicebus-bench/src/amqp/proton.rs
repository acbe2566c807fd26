use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

const SOURCE: &str = include_str!("../../peers/proton.c");

/// The C program against Proton's proactor API, compiled for this run.
pub(super) struct Program {
    folder: TempDir,
}

impl Program {
    /// Compiles the program; fails where `gcc` or the library with its headers is missing.
    pub(super) fn compile() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("servicebus-bench")
            .tempdir()?;
        let source = folder.path().join("proton.c");
        std::fs::write(&source, SOURCE)?;
        let program = Self { folder };
        let compiler = Command::new("gcc")
            .args(["-O2", "-o"])
            .arg(program.path())
            .arg(&source)
            .arg("-lqpid-proton")
            .stderr(Stdio::piped())
            .output()
            .context("gcc")?;
        ensure!(
            compiler.status.success(),
            "Qpid Proton C (libqpid-proton11-dev) is not installed: {}",
            String::from_utf8_lossy(&compiler.stderr)
                .lines()
                .next()
                .unwrap_or_default()
        );
        Ok(program)
    }

    pub(super) fn path(&self) -> PathBuf {
        Path::join(self.folder.path(), "proton")
    }
}
