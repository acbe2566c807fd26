use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use servicebus_emulator::Profile;
use tracing::Level;

/// An Azure Service Bus on this machine, for tests.
///
/// Prints the connection string to standard output once clients can connect, and everything else to standard error. Ends on
/// SIGTERM and SIGINT.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    /// The entities to begin with, in the format of the official emulator.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// The port for AMQP, plain, over WebSocket and (with --tls) over TLS; 0 takes any free one.
    #[arg(long, default_value_t = 5672)]
    pub(crate) port: u16,
    /// The port for HTTP: health and control; 0 takes any free one.
    #[arg(long, default_value_t = 5300)]
    pub(crate) http_port: u16,
    /// Takes TLS on the AMQP port too, with a certificate made at the start.
    #[arg(long)]
    pub(crate) tls: bool,
    /// More names and addresses for the certificate.
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub(crate) tls_names: Vec<String>,
    /// Where to write the certificate authority that clients have to trust, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub(crate) ca_file: Option<PathBuf>,
    /// A shared access key with all rights. With any key, tokens are checked: those of shared access keys by their
    /// signature, JSON web tokens not.
    #[arg(long, value_name = "NAME=KEY", value_parser = named_key)]
    pub(crate) key: Vec<(String, String)>,
    /// The limits that hold.
    #[arg(long, value_enum, default_value_t = ProfileName::Unlimited)]
    pub(crate) profile: ProfileName,
    /// Stops the clock; it moves by requests to the control API only.
    #[arg(long)]
    pub(crate) manual_clock: bool,
    /// Keeps the frames of all connections as text, for the control API.
    #[arg(long)]
    pub(crate) frames: bool,
    /// Says more on standard error; twice: even more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// A profile by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProfileName {
    Unlimited,
    Standard,
    Premium,
    OfficialEmulator,
}

/// A key behind its name; the key may have signs of equality, as base64 does.
fn named_key(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, key)) if !name.is_empty() && !key.is_empty() => Ok((name.into(), key.into())),
        _ => Err("a name and a key, as in RootManageSharedAccessKey=c2VjcmV0".into()),
    }
}

impl Arguments {
    pub(crate) fn level(&self) -> Level {
        match self.verbose {
            0 => Level::WARN,
            1 => Level::INFO,
            2 => Level::DEBUG,
            _ => Level::TRACE,
        }
    }
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Unlimited => Self::Unlimited,
            ProfileName::Standard => Self::Standard,
            ProfileName::Premium => Self::Premium,
            ProfileName::OfficialEmulator => Self::OfficialEmulator,
        }
    }
}
