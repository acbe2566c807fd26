//! Who may do what: namespaces by key name, shared access keys, tokens.

mod claims;
mod sas;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use servicebus_amqp::types::Timestamp;

pub(crate) use self::claims::{Claim, Claims, audience_path};
use self::sas::SasToken;
pub use self::sas::TokenError;

/// The name of the key that every connection string names by default.
pub const DEFAULT_KEY_NAME: &str = "RootManageSharedAccessKey";

/// The text of the key that clients of an emulator sign with by default.
pub const DEFAULT_KEY: &str = "SAS_KEY_VALUE";

/// What a key or token permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the service has these three rights"
)]
pub enum Rights {
    /// Everything.
    #[default]
    Manage,
    /// Sending.
    Send,
    /// Receiving.
    Listen,
    /// Sending and receiving, but no management of rules.
    SendListen,
}

impl Rights {
    pub(crate) fn cover(self, right: Self) -> bool {
        self == right || self == Self::Manage || (self == Self::SendListen && right != Self::Manage)
    }
}

/// A shared access key.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) namespace: Arc<str>,
    pub(crate) secret: String,
    pub(crate) rights: Rights,
}

/// What a hook makes of a JSON web token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a token is accepted or it is not")]
pub enum Verdict {
    /// The token is good for everything in the namespace of the host that the client names, until it is replaced.
    Accept,
    /// The token is no good; the client is told why.
    Refuse(String),
}

pub(crate) type TokenHook = Arc<dyn Fn(&str) -> Verdict + Send + Sync>;

/// Whether clients have to show a token before they attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// A token that is shown is read; its signature is not checked, and none is needed.
    Open,
    /// A valid token that covers the entity is needed.
    Required,
}

/// The keys and namespaces of an emulator.
#[derive(Clone)]
pub(crate) struct Access {
    default: Arc<str>,
    keys: HashMap<Box<str>, Key>,
    policy: Policy,
    hook: Option<TokenHook>,
}

impl Access {
    pub(crate) fn new(default: Arc<str>, policy: Policy, hook: Option<TokenHook>) -> Self {
        Self {
            default,
            keys: HashMap::new(),
            policy,
            hook,
        }
    }

    pub(crate) fn add_key(&mut self, name: &str, key: Key) {
        self.keys.insert(name.into(), key);
    }

    pub(crate) fn key(&self, name: &str) -> Option<&Key> {
        self.keys.get(name)
    }

    /// A key of a namespace, by name and text.
    pub(crate) fn any_key_of(&self, namespace: &str) -> Option<(&str, &str)> {
        let mut keys: Vec<_> = self
            .keys
            .iter()
            .filter(|(_, key)| *key.namespace == *namespace)
            .collect();
        // The one with the most rights, then by name: the same one each time.
        keys.sort_unstable_by_key(|(name, key)| (key.rights != Rights::Manage, *name));
        keys.first().map(|(name, key)| (&***name, &*key.secret))
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn default_namespace(&self) -> &Arc<str> {
        &self.default
    }

    /// The namespace that a host names, as in `test-17.servicebus.windows.net`; the default one where it names none.
    fn namespace_of_host(&self, host: Option<&str>) -> Arc<str> {
        let label = host
            .and_then(|host| host.split('.').next())
            .unwrap_or_default();
        self.keys
            .values()
            .map(|key| &key.namespace)
            .find(|namespace| namespace.eq_ignore_ascii_case(label))
            .unwrap_or(&self.default)
            .clone()
    }

    /// Reads a token that a client put for an audience.
    ///
    /// # Errors
    ///
    /// When it is no token, no longer valid, signed with another key, or for something else.
    pub(crate) fn check_token(
        &self,
        token: &str,
        audience: &str,
        host: Option<&str>,
        now: Timestamp,
    ) -> Result<Claim, TokenError> {
        if !token.starts_with(sas::PREFIX) {
            return self.check_web_token(token, audience, host);
        }
        let token = SasToken::parse(token)?;
        if token.expires <= now {
            return Err(TokenError::Expired);
        }
        let key = self.keys.get(&*token.key_name);
        let (namespace, rights) = match (key, self.policy) {
            (Some(key), Policy::Required) => {
                token.verify(&key.secret)?;
                (key.namespace.clone(), key.rights)
            }
            (Some(key), Policy::Open) => (key.namespace.clone(), key.rights),
            (None, Policy::Open) => (self.default.clone(), Rights::Manage),
            (None, Policy::Required) => return Err(TokenError::UnknownKey(token.key_name)),
        };
        let path = audience_path(&token.resource);
        if !claims::covers(&path, &audience_path(audience)) {
            return Err(TokenError::Audience);
        }
        Ok(Claim {
            namespace,
            path,
            rights,
            expires: Some(token.expires),
        })
    }

    fn check_web_token(
        &self,
        token: &str,
        audience: &str,
        host: Option<&str>,
    ) -> Result<Claim, TokenError> {
        let verdict = match (&self.hook, self.policy) {
            (Some(hook), _) => hook(token),
            (None, Policy::Open) => Verdict::Accept,
            (None, Policy::Required) => {
                Verdict::Refuse("JSON web tokens are not accepted here.".into())
            }
        };
        match verdict {
            Verdict::Accept => Ok(Claim {
                namespace: self.namespace_of_host(host),
                path: audience_path(audience),
                rights: Rights::Manage,
                expires: None,
            }),
            Verdict::Refuse(reason) => Err(TokenError::Refused(reason)),
        }
    }

    /// The claim of a client that gives a key's name and text as user and password.
    pub(crate) fn check_password(&self, user: &str, password: &str) -> Option<Claim> {
        let whole = |namespace, rights| {
            Some(Claim {
                namespace,
                path: String::new(),
                rights,
                expires: None,
            })
        };
        match self.keys.get(user) {
            // A key's text is compared through a MAC so that the time taken tells nothing.
            Some(key) if sas::same_secret(&key.secret, password) => {
                whole(key.namespace.clone(), key.rights)
            }
            None if self.policy == Policy::Open => whole(self.default.clone(), Rights::Manage),
            _ => None,
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("default", &self.default)
            .field("keys", &self.keys.len())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
