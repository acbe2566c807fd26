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
pub(super) async fn pair(
    listening: Command,
    connecting: impl FnOnce(u16) -> anyhow::Result<Command>,
) -> anyhow::Result<[Report; 2]> {
    let mut listening = Process::start(listening)?;
    let port = timeout(LIMIT, listening.port())
        .await
        .context("no port in time")??;
    let connecting = Process::start(connecting(port)?)?;
    timeout(LIMIT, async {
        let (listening, connecting) = tokio::join!(listening.report(), connecting.report());
        Ok([
            listening.context("the listening side")?,
            connecting.context("the connecting side")?,
        ])
    })
    .await
    .context("no end in time")?
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(mut command: Command) -> anyhow::Result<Self> {
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

    async fn port(&mut self) -> anyhow::Result<u16> {
        let line = self.lines.next_line().await?.context("no port")?;
        let port = line.strip_prefix("port ").context("not a port")?;
        Ok(port.parse()?)
    }

    async fn report(mut self) -> anyhow::Result<Report> {
        let line = self.lines.next_line().await?.context("no report")?;
        let status = self.child.wait().await?;
        ensure!(status.success(), "{status}");
        Ok(serde_json::from_str(&line)?)
    }
}
