use std::borrow::Borrow;
use std::fmt;

use bytestring::ByteString;

/// A symbolic value from a constrained domain (AMQP 1.0 §1.6.21).
///
/// The specification allows ASCII only. Other UTF-8 text is tolerated on receipt, because refusing it would make a
/// message that a peer already accepted undeliverable.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(ByteString);

impl Symbol {
    /// A symbol that lives in the program text; costs no allocation.
    pub const fn from_static(text: &'static str) -> Self {
        Self(ByteString::from_static(text))
    }

    /// The text of the symbol.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of the symbol, sharing its storage.
    pub fn into_inner(self) -> ByteString {
        self.0
    }
}

impl From<ByteString> for Symbol {
    fn from(text: ByteString) -> Self {
        Self(text)
    }
}

impl From<String> for Symbol {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Borrow<str> for Symbol {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Symbol {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.as_str())
    }
}
