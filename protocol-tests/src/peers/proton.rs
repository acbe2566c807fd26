//! Apache Qpid Proton: the example programs of its C library, and its Python binding.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::folders::{filled_once, script};
use super::{Failure, Process, Unavailable, require_files, start_on_free_port};

const EXAMPLES: &str = "/usr/share/proton/examples";
const EXAMPLES_PACKAGE: &str = "libqpid-proton11-dev-examples";
/// Debian's own interpreter: the one its packages install modules for.
const PYTHON: &str = "/usr/bin/python3";
const START_LIMIT: Duration = Duration::from_secs(20);
const COMPILE_LIMIT: Duration = Duration::from_secs(60);

/// The example programs of Proton C, compiled.
#[derive(Debug, Clone)]
pub struct ProtonC {
    programs: PathBuf,
}

impl ProtonC {
    const PROGRAM: &'static str = "Proton C";

    /// Compiles the examples, unless that is done already.
    ///
    /// # Errors
    /// If the library, its examples or a C compiler is missing, or does not compile them.
    pub fn set_up() -> Result<Self, Unavailable> {
        require_files(
            Self::PROGRAM,
            EXAMPLES_PACKAGE,
            &[
                "/usr/include/proton/proactor.h",
                "/usr/share/proton/examples/c/broker.c",
            ],
        )?;
        let programs = filled_once("proton-c", |folder| {
            for example in ["broker", "send", "receive", "send-abort", "send-ssl"] {
                let mut gcc = Command::new("gcc");
                gcc.args(["-O1", "-o"])
                    .arg(folder.join(example))
                    .arg(format!("{EXAMPLES}/c/{example}.c"))
                    .args(["-lqpid-proton", "-lpthread"]);
                Process::start(&mut gcc)?
                    .wait_for_success(COMPILE_LIMIT)
                    .map_err(|failure| format!("{example}.c: {failure}"))?;
            }
            Ok(())
        })
        .map_err(|failure| Unavailable::new(Self::PROGRAM, failure))?;
        Ok(Self { programs })
    }

    /// Starts the example broker: queues on demand, any outcome is final, no drain and no transactions.
    ///
    /// # Errors
    /// If it does not listen within 20 s.
    pub fn start_broker(&self) -> Result<(Process, u16), Failure> {
        start_on_free_port(START_LIMIT, |port| {
            let mut command = Command::new(self.programs.join("broker"));
            command.args(["127.0.0.1", &port.to_string()]);
            Ok(command)
        })
    }

    /// A command that sends `count` small messages with the body `{"sequence": n}` and waits until each is accepted.
    pub fn send(&self, port: u16, address: &str, count: usize) -> Command {
        self.client("send", port, address, count)
    }

    /// As [`ProtonC::send`], over TLS that trusts any certificate.
    pub fn send_tls(&self, port: u16, address: &str, count: usize) -> Command {
        self.client("send-ssl", port, address, count)
    }

    /// A command that sends the first part of `count` large messages and aborts each.
    pub fn send_aborted(&self, port: u16, address: &str, count: usize) -> Command {
        self.client("send-abort", port, address, count)
    }

    /// A command that receives `count` messages, prints and accepts them.
    pub fn receive(&self, port: u16, address: &str, count: usize) -> Command {
        self.client("receive", port, address, count)
    }

    fn client(&self, program: &str, port: u16, address: &str, count: usize) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(["127.0.0.1", &port.to_string(), address, &count.to_string()]);
        command
    }
}

/// Proton's Python binding.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ProtonPython;

impl ProtonPython {
    const PROGRAM: &'static str = "Proton Python";

    /// Looks for Debian's package.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn set_up() -> Result<Self, Unavailable> {
        require_files(
            Self::PROGRAM,
            "python3-qpid-proton",
            &[PYTHON, "/usr/lib/python3/dist-packages/proton"],
        )?;
        require_files(
            Self::PROGRAM,
            EXAMPLES_PACKAGE,
            &["/usr/share/proton/examples/python/broker.py"],
        )?;
        Ok(Self)
    }

    /// Starts the example broker: queues on demand, any outcome is final, no drain and no transactions.
    ///
    /// # Errors
    /// If it does not listen within 20 s.
    pub fn start_broker(&self) -> Result<(Process, u16), Failure> {
        start_on_free_port(START_LIMIT, |port| {
            let mut command = Command::new(PYTHON);
            command
                .arg(format!("{EXAMPLES}/python/broker.py"))
                .args(["-a", &format!("127.0.0.1:{port}")]);
            Ok(command)
        })
    }

    /// The scripted client of this package: a request as JSON on its standard input, an answer on its output.
    pub fn client(&self) -> Command {
        let mut command = Command::new(PYTHON);
        command.arg(script("proton_client.py"));
        command
    }
}
