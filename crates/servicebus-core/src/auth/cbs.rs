//! The request that puts a token on `$cbs`, and its answer.

use bytestring::ByteString;
use servicebus_amqp::types::{Map, Timestamp, Value};

use super::Token;
use crate::error::{Error, Result};
use crate::names::{self, operation, rpc};
use crate::rpc::{Answer, Request};

/// The request that authorises this connection for `audience`.
pub fn put_token(audience: &str, token: &Token) -> Request {
    Request {
        operation: operation::PUT_TOKEN,
        to: Some(ByteString::from_static(names::CBS_NODE)),
        properties: Map::new()
            .with(rpc::TYPE, token.kind().wire_name())
            .with(rpc::NAME, audience)
            .with(rpc::EXPIRATION, Timestamp::from(token.expires())),
        body: Value::from(token.text()),
    }
}

/// Reads the answer: 200 and 202 are success.
///
/// # Errors
///
/// `Unauthorized` for a refused token, `EntityNotFound`, `ServiceBusy`, and what else a status means.
pub fn token_accepted(answer: Answer) -> Result<()> {
    answer.success().map_err(|error| {
        // A token that was just made and is refused does not get better by being made again.
        if error.recovery() == crate::error::Recovery::Token {
            Error::with_recovery(error, crate::error::Recovery::None)
        } else {
            error
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use servicebus_amqp::types::Body;

    use super::super::{SharedAccessKey, TokenKind};
    use super::*;
    use crate::error::ErrorKind;
    use crate::rpc::Envelope;
    use crate::rpc::tests::answer;

    /// Field by field what the JavaScript SDK sends, and the expiration that .NET, Python and Go add.
    #[test]
    fn the_request_is_that_of_the_official_sdks() {
        let key = SharedAccessKey::new("RootManageSharedAccessKey", "SAS_KEY_VALUE");
        let token = key.sign(
            "sb://localhost:23938/q1",
            UNIX_EPOCH + Duration::from_secs(1_796_031_266),
        );
        let message = put_token("sb://localhost:23938/q1", &token).message(&Envelope {
            message_id: servicebus_amqp::types::MessageId::Ulong(1),
            reply_to: "cbs-1".into(),
            server_timeout: None,
            tracking_id: None,
            associated_link: None,
        });
        let properties = message.properties.unwrap();
        assert_eq!(properties.to.as_deref(), Some("$cbs"));
        assert_eq!(properties.reply_to.as_deref(), Some("cbs-1"));
        let sent = message.application_properties.unwrap().decode().unwrap();
        let expected = Map::new()
            .with("operation", "put-token")
            .with("type", "servicebus.windows.net:sastoken")
            .with("name", "sb://localhost:23938/q1")
            .with("expiration", Timestamp::from_millis(1_796_031_266_000));
        assert_eq!(sent, expected);
        let Body::Value(Value::String(text)) = message.body else {
            panic!("the body is not a string")
        };
        assert_eq!(
            text,
            "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A23938%2Fq1\
             &sig=CuV6cviZwSu9bTNbaEz3FY1OdtQUY9sVkec5ijffY%2FA%3D&se=1796031266&skn=RootManageSharedAccessKey"
        );
    }

    #[test]
    fn b54_the_request_does_not_print_the_token() {
        let token = Token::new(TokenKind::Jwt, "S3CRETKEY", UNIX_EPOCH);
        let printed = format!("{:?}", put_token("sb://ns/q", &token));
        assert!(!printed.contains("S3CRETKEY"), "{printed}");
    }

    #[test]
    fn b50_answers() {
        for status in [200, 202] {
            assert!(token_accepted(answer(status, Body::Value(Value::Null))).is_ok());
        }
        let rows = [
            (401, ErrorKind::Unauthorized, false),
            (404, ErrorKind::EntityNotFound, false),
            (500, ErrorKind::Other, true),
            (503, ErrorKind::ServiceBusy, true),
        ];
        for (status, kind, transient) in rows {
            let error = token_accepted(answer(status, Body::Empty)).unwrap_err();
            assert_eq!((error.kind(), error.is_transient()), (kind, transient));
        }
    }
}
