//! RabbitMQ 3.10 with its AMQP 1.0 plugin.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::process::free_port;
use super::{Failure, Process, Unavailable, require_files, start_on_free_port};

const PROGRAM: &str = "RabbitMQ";
const HOME: &str = "/usr/lib/rabbitmq/lib";
const START_LIMIT: Duration = Duration::from_secs(90);

/// A running RabbitMQ of one's own: private ports, data and node name.
///
/// SASL PLAIN as `guest`, queues under `/queue/NAME`. It requeues what is released, knows no `modified`, no drain and no
/// transactions.
#[derive(Debug)]
pub struct RabbitMq {
    // Dropped in this order: the broker first, then its name server, then their files.
    _broker: Process,
    _name_server: Process,
    _files: tempfile::TempDir,
    port: u16,
}

impl RabbitMq {
    /// Looks for Debian's package.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn check() -> Result<(), Unavailable> {
        require_files(PROGRAM, "rabbitmq-server", &[HOME, "/usr/bin/epmd"])
    }

    /// Starts a broker.
    ///
    /// # Errors
    /// If it does not listen within 90 s (5 s are usual).
    pub fn start() -> Result<Self, Failure> {
        let server = fs::read_dir(HOME)?
            .filter_map(Result::ok)
            .map(|entry| entry.path().join("sbin/rabbitmq-server"))
            .find(|path| path.exists())
            .ok_or_else(|| format!("no rabbitmq-server under {HOME}"))?;
        let files = tempfile::tempdir()?;
        fs::write(files.path().join("plugins"), "[rabbitmq_amqp1_0].\n")?;

        // Erlang's name server would otherwise be started as a daemon that outlives the test.
        let (name_server, name_port) = start_on_free_port(Duration::from_secs(10), |port| {
            let mut command = Command::new("/usr/bin/epmd");
            command.args(["-port", &port.to_string(), "-address", "127.0.0.1"]);
            Ok(command)
        })?;
        let (broker, port) = start_on_free_port(START_LIMIT, |port| {
            command(&server, files.path(), port, name_port)
        })?;
        Ok(Self {
            _broker: broker,
            _name_server: name_server,
            _files: files,
            port,
        })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn command(server: &Path, files: &Path, port: u16, name_port: u16) -> Result<Command, Failure> {
    let config = files.join("rabbitmq.conf");
    fs::write(
        &config,
        format!("listeners.tcp.default = 127.0.0.1:{port}\nlog.console = true\nlog.file = false\n"),
    )?;
    let mut command = Command::new(server);
    command
        .env("HOME", files)
        .env("RABBITMQ_NODENAME", format!("interop-{port}@localhost"))
        .env("RABBITMQ_MNESIA_BASE", files.join("data"))
        .env("RABBITMQ_LOG_BASE", files.join("log"))
        .env("RABBITMQ_CONFIG_FILE", &config)
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", files.join("plugins"))
        .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
        .env("RABBITMQ_PID_FILE", files.join("pid"))
        .env("RABBITMQ_DIST_PORT", free_port()?.to_string())
        .env("ERL_CRASH_DUMP", "/dev/null")
        .env("ERL_EPMD_PORT", name_port.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-kernel inet_dist_use_interface {127,0,0,1}",
        )
        // Makes the start script become the server, so that its process id is the server's.
        .env("RUNNING_UNDER_SYSTEMD", "true");
    Ok(command)
}
