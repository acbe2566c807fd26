//! The emulator as a program, for clients that are programs too.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::peers::{Failure, Process, cargo_build, target_folder};

const START_LIMIT: Duration = Duration::from_secs(20);

/// A running emulator with TLS on its port, too. Dropping it ends it.
#[derive(Debug)]
pub struct EmulatorProgram {
    process: Process,
    amqp: SocketAddr,
    http: SocketAddr,
    folder: tempfile::TempDir,
}

impl EmulatorProgram {
    /// The name of the host in the certificate, beside those of this machine.
    pub const HOST: &'static str = "emulator.servicebus.test";
    /// The name of the key that is there by default.
    pub const KEY_NAME: &'static str = "RootManageSharedAccessKey";
    /// That key.
    pub const KEY: &'static str = "SAS_KEY_VALUE";
    /// Arguments that make it check all tokens, as it does once it is given a key.
    pub const CHECKING_TOKENS: [&'static str; 2] =
        ["--key", "RootManageSharedAccessKey=SAS_KEY_VALUE"];
    /// Arguments that make it know the limits of the standard tier, such as that for the size of messages.
    pub const STANDARD_LIMITS: [&'static str; 2] = ["--profile", "standard"];

    /// Builds the emulator, as far as that is not done already, and starts it with the entities of `config`, a
    /// `config.json` of the official emulator.
    ///
    /// # Errors
    /// If it cannot be built or does not start.
    pub fn start(listen: Listen, config: &str, arguments: &[&str]) -> Result<Self, Failure> {
        let target = target_folder()?;
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        cargo_build(
            &workspace,
            &target,
            &["--package", "servicebus-emulator", "--features", "binary"],
        )?;

        let folder = tempfile::tempdir()?;
        let config_file = folder.path().join("config.json");
        fs::write(&config_file, config)?;
        let (host, port) = match listen {
            Listen::AnyPort => (IpAddr::from(Ipv4Addr::LOCALHOST), 0),
            // A loopback address that nobody else on this machine is likely to use.
            Listen::StandardPort => {
                let [a, b] = (std::process::id() & 0xffff).to_be_bytes()[2..] else {
                    return Err("two bytes".into());
                };
                (IpAddr::from([127, 57, a, b]), 5672)
            }
        };
        let mut process = Process::start(
            Command::new(target.join("debug/servicebus-emulator"))
                .args(["--host", &host.to_string(), "--port", &port.to_string()])
                .args(["--http-port", "0", "--tls", "--tls-names", Self::HOST])
                .arg("--ca-file")
                .arg(folder.path().join("ca.pem"))
                .arg("--config")
                .arg(config_file)
                .args(arguments),
        )?;
        let ready = process.wait_for_line("Ready:", START_LIMIT)?;
        let addresses: Vec<SocketAddr> = ready
            .split([' ', ','])
            .filter_map(|word| word.trim_end_matches('.').parse().ok())
            .collect();
        let [amqp, http] = *addresses else {
            return Err(format!("no two addresses in {ready:?}").into());
        };
        Ok(Self {
            process,
            amqp,
            http,
            folder,
        })
    }

    /// The address for AMQP.
    #[must_use]
    pub fn amqp(&self) -> SocketAddr {
        self.amqp
    }

    /// What clients on this machine connect with, without TLS.
    #[must_use]
    pub fn connection_string(&self) -> String {
        format!(
            "Endpoint=sb://{};SharedAccessKeyName={};SharedAccessKey={};UseDevelopmentEmulator=true;",
            self.amqp,
            Self::KEY_NAME,
            Self::KEY
        )
    }

    /// The address of the control API.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The authority that clients over TLS have to trust, as PEM.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// What the emulator has printed.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// Where an emulator listens for AMQP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listen {
    /// On a free port of 127.0.0.1.
    AnyPort,
    /// On port 5672 of some loopback address.
    StandardPort,
}
