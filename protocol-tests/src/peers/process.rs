//! Child processes that end with the test, and waits that end.

use std::io::{BufRead as _, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::Failure;

/// How much of a server's output is kept for a failure's report.
const LOG_LIMIT: usize = 64 * 1024;
/// A longer line is kept in pieces.
const LINE_LIMIT: u64 = 8 * 1024;
/// How often a starting server is asked whether it listens.
const POLL: Duration = Duration::from_millis(20);

/// A running foreign server. Dropping it kills it by its process id and waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    /// Starts `command` with its output kept for [`Process::log`].
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let log = Arc::new(Mutex::new(Vec::new()));
        if let Some(out) = child.stdout.take() {
            keep(out, Arc::clone(&log));
        }
        if let Some(err) = child.stderr.take() {
            keep(err, Arc::clone(&log));
        }
        Ok(Self { child, log })
    }

    /// Waits until something accepts connections on `port` of 127.0.0.1.
    ///
    /// # Errors
    /// If the process ends first or `limit` has passed. Carries what the process printed.
    pub fn wait_for_port(&mut self, port: u16, limit: Duration) -> Result<(), Failure> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        for _ in 0..limit.as_millis() / POLL.as_millis() {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(
                    format!("ended with {status} before it listened:\n{}", self.log()).into(),
                );
            }
            thread::sleep(POLL);
        }
        Err(format!(
            "did not listen on port {port} within {limit:?}:\n{}",
            self.log()
        )
        .into())
    }

    /// Waits until the process has ended well.
    ///
    /// # Errors
    /// If it ends otherwise or `limit` has passed. Carries what the process printed.
    pub fn wait_for_success(&mut self, limit: Duration) -> Result<(), Failure> {
        for _ in 0..limit.as_millis() / POLL.as_millis() {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("ended with {status}:\n{}", self.log()).into()),
                None => thread::sleep(POLL),
            }
        }
        Err(format!("did not end within {limit:?}:\n{}", self.log()).into())
    }

    /// Waits until the process has printed a line that begins with `start`; returns it.
    ///
    /// # Errors
    /// If the process ends first or `limit` has passed. Carries what the process printed.
    pub fn wait_for_line(&mut self, start: &str, limit: Duration) -> Result<String, Failure> {
        for _ in 0..limit.as_millis() / POLL.as_millis() {
            let ended = self.child.try_wait()?;
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.starts_with(start)) {
                return Ok(line.trim_end().to_owned());
            }
            if let Some(status) = ended {
                return Err(format!("ended with {status}:\n{log}").into());
            }
            thread::sleep(POLL);
        }
        Err(format!("no line {start:?} within {limit:?}:\n{}", self.log()).into())
    }

    /// What the process has printed, the last 64 KiB of it.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps what comes, line by line: a program writes its lines in pieces, and those of its two outputs would mix.
fn keep(from: impl Read + Send + 'static, log: Arc<Mutex<Vec<u8>>>) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = (&mut from).take(LINE_LIMIT).read_until(b'\n', &mut line) {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.append(&mut line);
            let excess = log.len().saturating_sub(LOG_LIMIT);
            log.drain(..excess);
        }
    });
}

/// Starts a server that `command` describes for a free port, and waits until it listens there.
///
/// # Errors
/// If it does not come up on one of three ports: between choosing a port and using it, another program may take it.
pub fn start_on_free_port(
    limit: Duration,
    mut command: impl FnMut(u16) -> Result<Command, Failure>,
) -> Result<(Process, u16), Failure> {
    let mut last = None;
    for _ in 0..3 {
        let port = free_port()?;
        let mut process = Process::start(&mut command(port)?)?;
        match process.wait_for_port(port, limit) {
            Ok(()) => return Ok((process, port)),
            Err(failure) => last = Some(failure),
        }
    }
    Err(last.unwrap_or_else(|| "no attempt".into()))
}

/// A port of 127.0.0.1 that nobody listens on right now.
pub(super) fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// What a program that ran to its end left behind.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Finished {
    /// The output of a program that ended well.
    ///
    /// # Errors
    /// If it ended otherwise; carries all it printed.
    pub fn success(self) -> Result<String, Failure> {
        if self.status.success() {
            Ok(self.stdout)
        } else {
            Err(format!("ended with {}\n{}{}", self.status, self.stdout, self.stderr).into())
        }
    }
}

/// Runs `command` to its end with `input` on its standard input.
///
/// # Errors
/// If it cannot be started or has not ended within `limit`; then it is killed.
///
/// # Cancel safety
/// Dropping the future kills the program.
pub async fn run(command: Command, input: &[u8], limit: Duration) -> Result<Finished, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = tokio::process::Command::from(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    let stdin = child.stdin.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program may end without reading; its status tells the story then.
            let _ = stdin.write_all(input).await;
        }
    };
    let both = async { tokio::join!(feed, child.wait_with_output()).1 };
    let output = tokio::time::timeout(limit, both)
        .await
        .map_err(|_| format!("{name} did not end within {limit:?}"))??;
    Ok(Finished {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
