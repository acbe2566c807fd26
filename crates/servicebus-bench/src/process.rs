use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::measure::Report;

/// A run takes seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Starts a listening process and, with the port it prints, a connecting one; gives both their reports.
///
/// Neither process outlives the call.
pub(crate) async fn pair(
    listening: Command,
    connecting: impl FnOnce(u16) -> anyhow::Result<Command>,
) -> anyhow::Result<[Report; 2]> {
    let mut listening = Process::start(listening)?;
    let port = listening.port().await.context("the listening side")?;
    let connecting = Process::start(connecting(port)?)?;
    let (listening, connecting) = tokio::try_join!(
        async { listening.report().await.context("the listening side") },
        async { connecting.report().await.context("the connecting side") },
    )?;
    Ok([listening, connecting])
}

/// A process that prints what it has to say as lines, and ends when it is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("no output")?;
        Ok(Self {
            child,
            lines: BufReader::new(stdout).lines(),
        })
    }

    /// The next line it prints, within two minutes.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        timeout(LIMIT, self.lines.next_line())
            .await
            .context("no answer in time")??
            .context("it ended without an answer")
    }

    /// Its process id.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("it has ended")
    }

    async fn port(&mut self) -> anyhow::Result<u16> {
        let line = self.line().await?;
        let port = line.strip_prefix("port ").context("not a port")?;
        Ok(port.parse()?)
    }

    /// What it measured, once it has ended well.
    pub(crate) async fn report(mut self) -> anyhow::Result<Report> {
        let line = self.line().await?;
        let status = timeout(LIMIT, self.child.wait())
            .await
            .context("no end in time")??;
        ensure!(status.success(), "{status}");
        Ok(serde_json::from_str(&line)?)
    }
}
