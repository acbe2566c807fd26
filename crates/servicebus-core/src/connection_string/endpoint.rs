use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Security {
    /// TLS from the first byte: every namespace in the cloud.
    Tls,
    /// No encryption: an emulator.
    Plain,
}

/// Where a namespace is: a host, possibly a port, and whether TLS is spoken there.
///
/// ```
/// use servicebus_core::connection_string::Endpoint;
///
/// // As the portal, a template or a person may write it.
/// for text in ["ns.servicebus.windows.net", "sb://ns.servicebus.windows.net/", "https://ns.servicebus.windows.net:443/"] {
///     let endpoint: Endpoint = text.parse()?;
///     assert_eq!(endpoint.host(), "ns.servicebus.windows.net");
///     assert_eq!(endpoint.amqp_port(), 5671);
/// }
/// # Ok::<(), servicebus_core::error::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    host: String,
    port: Option<u16>,
    security: Security,
}

impl Endpoint {
    /// Reads a host, or a URI with the scheme `sb`, `amqps`, `amqp`, `https`, `http` or `wss`.
    ///
    /// The port of an HTTP URI is dropped when it is that scheme's own: tools print it, and no AMQP is there.
    pub(crate) fn parse(text: &str, security: Security) -> Result<Self, &'static str> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => (String::new(), text),
        };
        if !["", "sb", "amqps", "amqp", "https", "http", "wss"].contains(&scheme.as_str()) {
            return Err("unknown scheme; sb is expected");
        }
        let authority = match rest.split_once('/') {
            Some((authority, "")) => authority,
            Some(_) => return Err("there is a path behind the host"),
            None => rest,
        };
        if authority.contains('@') {
            return Err("there is a user in front of the host");
        }
        let (host, port) = split_port(authority)?;
        let well_formed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let address = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '%');
        let valid = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(address_text) => !address_text.is_empty() && address_text.chars().all(address),
            None => !host.is_empty() && host.chars().all(well_formed),
        };
        if !valid {
            return Err("the host is empty or has characters that no host has");
        }
        let web = matches!(scheme.as_str(), "https" | "wss") && port == Some(443)
            || scheme == "http" && port == Some(80);
        Ok(Self {
            host: host.to_ascii_lowercase(),
            port: if web { None } else { port },
            security,
        })
    }

    /// The same endpoint, without TLS: an emulator.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.security = Security::Plain;
        self
    }

    /// The host, in lower case; an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port that was named.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether TLS is spoken.
    pub fn security(&self) -> Security {
        self.security
    }

    /// The port for AMQP over TCP: the one that was named, else 5671 with TLS and 5672 without.
    pub fn amqp_port(&self) -> u16 {
        self.port.unwrap_or(match self.security {
            Security::Tls => 5671,
            Security::Plain => 5672,
        })
    }

    /// The URL for AMQP over WebSocket: port 443 with TLS and 80 without, unless one was named.
    pub fn web_socket_url(&self) -> String {
        let scheme = match self.security {
            Security::Tls => "wss",
            Security::Plain => "ws",
        };
        let port = self.port.unwrap_or(match self.security {
            Security::Tls => 443,
            Security::Plain => 80,
        });
        format!("{scheme}://{}:{port}/$servicebus/websocket", self.host)
    }

    /// The audience of a token for `address`: `sb://host[:port]/address`.
    pub fn audience(&self, address: &str) -> String {
        match self.port {
            Some(port) => format!("sb://{}:{port}/{address}", self.host),
            None => format!("sb://{}/{address}", self.host),
        }
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = if authority.starts_with('[') {
        match authority.split_once("]:") {
            // The bracket belongs to the host.
            Some((host, port)) => (authority.get(..=host.len()).unwrap_or(host), Some(port)),
            None => (authority, None),
        }
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let port = match port {
        None => None,
        Some(text) => Some(
            text.parse::<u16>()
                .ok()
                .filter(|&port| port != 0)
                .ok_or("the port is no number from 1 to 65535")?,
        ),
    };
    Ok((host, port))
}

impl FromStr for Endpoint {
    type Err = Error;

    /// Reads a namespace given as a host or as a URI; TLS is assumed.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text.trim(), Security::Tls).map_err(|reason| {
            Error::new(ErrorKind::InvalidArgument, format!("namespace: {reason}"))
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self}, {:?})", self.security)
    }
}
