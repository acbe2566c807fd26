use std::fmt;
use std::time::SystemTime;

/// What sort of text a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenKind {
    /// A shared access signature.
    Sas,
    /// A JSON web token of Microsoft Entra ID.
    Jwt,
}

impl TokenKind {
    /// The `type` that `$cbs` knows it by.
    pub const fn wire_name(self) -> &'static str {
        match self {
            Self::Sas => "servicebus.windows.net:sastoken",
            Self::Jwt => "jwt",
        }
    }
}

/// A token and when it ends. `Debug` does not show the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    kind: TokenKind,
    text: String,
    expires: SystemTime,
}

impl Token {
    /// A token of this kind.
    pub fn new(kind: TokenKind, text: impl Into<String>, expires: SystemTime) -> Self {
        Self {
            kind,
            text: text.into(),
            expires,
        }
    }

    /// What sort of text it is.
    pub fn kind(&self) -> TokenKind {
        self.kind
    }

    /// The secret itself.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// When it ends, by the clock of the one who made it.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("kind", &self.kind)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn b54_the_text_is_not_printed() {
        let token = Token::new(TokenKind::Jwt, "eyJhbGciOi.S3CRETKEY", UNIX_EPOCH);
        assert!(!format!("{token:?}").contains("eyJ"));
    }
}
