use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context as _, Error, ensure};
use protocol_tests::peers::target_folder;
use tokio::process::Command;

use crate::process::Process;

/// Queues whose messages live for an hour, as the official emulator's do: each run finds what the last one left.
fn config(more: usize) -> String {
    let queue = |name: &str| {
        format!(r#"{{ "Name": "{name}", "Properties": {{ "LockDuration": "PT5M" }} }}, "#)
    };
    let more: String = (0..more).map(|n| queue(&format!("queue-{n}"))).collect();
    let (queues, sessions) = (
        queue("queue") + &more,
        r#"{ "Name": "sessions", "Properties": { "LockDuration": "PT5M", "RequiresSession": true } }"#,
    );
    format!(
        r#"{{ "UserConfig": {{
            "Namespaces": [{{ "Name": "sbemulatorns", "Queues": [{queues}{sessions}], "Topics": [] }}],
            "Logging": {{ "Type": "File" }}
        }} }}"#
    )
}

static LAUNCHES: AtomicU8 = AtomicU8::new(0);

/// The emulator's program, running. Dropping it ends it.
pub(crate) struct Program {
    process: Process,
    connection_string: String,
    _files: tempfile::TempDir,
}

impl Program {
    /// Builds the program, as far as that is not done already.
    pub(crate) fn build() -> anyhow::Result<PathBuf> {
        let folder = target_folder().map_err(Error::from_boxed)?;
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
        let selection = ["--package", "servicebus-emulator", "--features", "binary"];
        cargo(&manifest, &folder, &selection)?;
        Ok(folder.join("release/servicebus-emulator"))
    }

    /// Builds and starts the program, with the queues `queue` and `sessions`.
    ///
    /// It listens on AMQP's own port, as some clients know no other, on a loopback address that nobody else is likely to
    /// use.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::launch(&Self::build()?, 0).await
    }

    /// Starts the program that [`build`](Self::build) gave, with so many queues more, from `queue-0` on.
    pub(super) async fn launch(program: &Path, more: usize) -> anyhow::Result<Self> {
        let files = tempfile::tempdir()?;
        let file = files.path().join("config.json");
        std::fs::write(&file, config(more))?;
        // One after another: the last one may not have ended yet.
        let number = LAUNCHES.fetch_add(1, Ordering::Relaxed) % 100;
        let [_, _, a, b] = std::process::id().to_be_bytes();
        let mut command = Command::new(program);
        command
            .args([
                "--host",
                &format!("127.{}.{a}.{b}", 100 + number),
                "--port",
                "5672",
            ])
            .args(["--http-port", "0", "--config"])
            .arg(file)
            .stderr(Stdio::null());
        let mut process = Process::start(command)?;
        let connection_string = process.line().await.context("the emulator")?;
        Ok(Self {
            process,
            connection_string,
            _files: files,
        })
    }

    pub(crate) fn connection_string(&self) -> &str {
        &self.connection_string
    }

    /// Its process id.
    pub(super) fn id(&self) -> anyhow::Result<u32> {
        self.process.id()
    }
}

/// Builds what `selection` names of the workspace of `manifest` into `folder`, for release.
pub(crate) fn cargo(manifest: &Path, folder: &Path, selection: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo)
        .args(["build", "--release", "--locked", "--quiet"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(folder)
        .args(selection)
        .output()?;
    ensure!(
        output.status.success(),
        "cargo build: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
