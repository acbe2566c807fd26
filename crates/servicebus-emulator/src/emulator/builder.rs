use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use servicebus_amqp::net::{ListenOptions, Listener};
use thiserror::Error;
use tokio::runtime::Handle;

use super::certificate::Certificate;
use super::{Emulator, Inner, Namespace};
use crate::access::{
    Access, DEFAULT_KEY, DEFAULT_KEY_NAME, Key, Policy, Rights, TokenHook, Verdict,
};
use crate::broker::Limits;
use crate::config::{Config, ConfigError};
use crate::gateway::FrameLog;
use crate::hub::{Clock, Hub, Settings, start_timekeeper};
use crate::idle::IdleTimes;

/// The name of the default namespace; that of the official emulator.
const DEFAULT_NAMESPACE: &str = "sbemulatorns";

/// The limits of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// None. The default.
    #[default]
    Unlimited,
    /// Those of the Standard tier.
    Standard,
    /// Those of the Premium tier.
    Premium,
    /// Those of the official emulator.
    OfficialEmulator,
}

impl Profile {
    fn limits(self) -> Limits {
        match self {
            Self::Unlimited => Limits::unlimited(),
            Self::Standard => Limits::standard(),
            Self::Premium => Limits::premium(),
            Self::OfficialEmulator => Limits::official_emulator(),
        }
    }
}

/// Why an emulator did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// An entity of the configuration cannot be had.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
    /// The system gives no thread for the timers.
    #[error("cannot start the thread for timers: {0}")]
    Thread(#[source] io::Error),
}

/// The settings of an [`Emulator`].
#[must_use = "an emulator runs once it is started"]
pub struct Builder {
    config: Option<Config>,
    profile: Profile,
    clock: Clock,
    seed: u64,
    listen: Option<SocketAddr>,
    tls_names: Option<Vec<String>>,
    keys: Vec<(String, String, Rights)>,
    hook: Option<TokenHook>,
    idle: IdleTimes,
    frame_log: bool,
    strict: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            config: None,
            profile: Profile::default(),
            clock: Clock::default(),
            seed: 0,
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            tls_names: None,
            keys: Vec::new(),
            hook: None,
            idle: IdleTimes::default(),
            frame_log: false,
            strict: false,
        }
    }
}

impl Builder {
    /// Declares these entities. The first namespace is the default one then.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the limits. Default none.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the clock. Default the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets what lock tokens and transaction ids are made from. Default 0: every run has the same.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the address to listen on; port 0 lets the system choose. Default `127.0.0.1:0`.
    ///
    /// One port takes plain AMQP, AMQP over TLS (with [`tls`](Self::tls)) and AMQP over WebSocket.
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Listens nowhere: clients come by [`Emulator::connect`] only.
    pub fn in_memory(mut self) -> Self {
        self.listen = None;
        self
    }

    /// Takes TLS too, with a certificate made now for `localhost`, the loopback addresses and
    /// `*.servicebus.windows.net`. Clients trust [`Emulator::ca_pem`].
    pub fn tls(self) -> Self {
        self.tls_for([])
    }

    /// Like [`tls`](Self::tls), for these host names and addresses as well.
    pub fn tls_for<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names.into_iter().map(str::to_owned);
        self.tls_names.get_or_insert_default().extend(names);
        self
    }

    /// Adds a shared access key of the default namespace. With the first one, tokens are checked: clients need one that is
    /// signed with a key, has not run out and covers what they attach to.
    ///
    /// Without any, tokens are not needed, and their signatures not checked; connection strings have the key
    /// `SAS_KEY_VALUE`, as for the official emulator.
    pub fn key(mut self, name: &str, key: &str, rights: Rights) -> Self {
        self.keys.push((name.into(), key.into(), rights));
        self
    }

    /// Sets who decides about JSON web tokens. Without, they are accepted where no key is set and refused where one is.
    pub fn token_hook(mut self, hook: impl Fn(&str) -> Verdict + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Sets when idle links and connections are ended. Default never.
    pub fn idle_times(mut self, idle: IdleTimes) -> Self {
        self.idle = idle;
        self
    }

    /// Keeps the frames of all connections as text, for [`Emulator::frames`].
    pub fn frame_log(mut self) -> Self {
        self.frame_log = true;
        self
    }

    /// Fails the test of a client that breaks the protocol: dropping the emulator panics then, unless the test panics
    /// already.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Starts the emulator on the present runtime. It is ready when this returns.
    ///
    /// # Errors
    ///
    /// [`StartError`]
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn start(self) -> Result<Emulator, StartError> {
        let certificate = self
            .tls_names
            .as_ref()
            .map(|names| Certificate::generate(names).map_err(StartError::Certificate))
            .transpose()?;
        let listener = match self.listen {
            None => None,
            Some(address) => {
                let mut options = ListenOptions::default();
                options.tls = certificate.as_ref().map(|made| Arc::clone(&made.server));
                let listener = Listener::bind(address, options)
                    .await
                    .map_err(|error| StartError::Listen { address, error })?;
                Some(listener)
            }
        };
        let address = listener
            .as_ref()
            .and_then(|listener| listener.local_addr().ok());
        let manual = self.clock.is_manual();
        let log = self
            .frame_log
            .then(|| Arc::new(FrameLog::new(self.clock.clone())));
        let hub = Hub::new(Settings {
            limits: self.profile.limits(),
            seed: self.seed,
            clock: self.clock.clone(),
            access: self.access(),
            idle: self.idle,
        });
        let inner = Arc::new(Inner {
            hub,
            runtime: Handle::current(),
            address,
            ca_pem: certificate.map(|certificate| certificate.ca_pem),
            log,
            lines: Mutex::new(HashMap::new()),
            chop: AtomicUsize::new(0),
        });
        if let Some(config) = &self.config {
            inner
                .hub
                .with(None, |core, now| config.declare(&mut core.broker, now))?;
            for namespace in &config.namespaces {
                Namespace::open(&inner, &namespace.name);
            }
        }
        let emulator = Emulator {
            default: Namespace::open(&inner, self.default_namespace()),
            accepting: listener
                .map(|listener| tokio::spawn(Arc::clone(&inner).accept(listener)).abort_handle()),
            inner,
            strict: self.strict,
        };
        if !manual {
            start_timekeeper(&emulator.inner.hub).map_err(StartError::Thread)?;
        }
        Ok(emulator)
    }

    fn default_namespace(&self) -> &str {
        let declared = self
            .config
            .as_ref()
            .and_then(|config| config.namespaces.first());
        declared.map_or(DEFAULT_NAMESPACE, |namespace| &namespace.name)
    }

    fn access(&self) -> Access {
        let policy = if self.keys.is_empty() {
            Policy::Open
        } else {
            Policy::Required
        };
        let namespace: Arc<str> = self.default_namespace().into();
        let mut access = Access::new(Arc::clone(&namespace), policy, self.hook.clone());
        let default = (DEFAULT_KEY_NAME.into(), DEFAULT_KEY.into(), Rights::Manage);
        let default = self.keys.is_empty().then_some(&default);
        for (name, secret, rights) in self.keys.iter().chain(default) {
            access.add_key(
                name,
                Key {
                    namespace: Arc::clone(&namespace),
                    secret: secret.clone(),
                    rights: *rights,
                },
            );
        }
        access
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("profile", &self.profile)
            .field("clock", &self.clock)
            .field("listen", &self.listen)
            .field("tls", &self.tls_names.is_some())
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}
