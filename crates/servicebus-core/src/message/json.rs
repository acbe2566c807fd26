use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Message, ReceivedMessage};
use crate::error::{Error, ErrorKind, Result};

/// The content type of JSON bodies.
const CONTENT_TYPE: &str = "application/json";

impl Message {
    /// A message whose body is this value as JSON, with the content type `application/json`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when the value has no form in JSON, as a map with keys that are not text.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let body = serde_json::to_vec(value).map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, "the value is no JSON").with_source(error)
        })?;
        Ok(Self::new(body).content_type(CONTENT_TYPE))
    }
}

impl ReceivedMessage {
    /// The body, read as JSON whatever the content type is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when the body is neither data nor text, or not the JSON of such a value.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let text = self.text();
        let bytes = self.bytes();
        let json = match (&bytes, &text) {
            (Some(bytes), _) => bytes.as_ref(),
            (None, Some(text)) => text.as_bytes(),
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "the body is an AMQP value or sequence",
                ));
            }
        };
        serde_json::from_slice(json).map_err(|error| {
            Error::new(
                ErrorKind::InvalidArgument,
                "the body is not the JSON expected",
            )
            .with_source(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::BrokerProperties;
    use super::*;

    #[test]
    fn a_value_there_and_back() {
        let message = Message::json(&vec![Some(1), None]).unwrap();
        assert_eq!(message.content_type.as_deref(), Some("application/json"));
        let received = ReceivedMessage::from_parts(message, BrokerProperties::new());
        assert_eq!(received.bytes().as_deref(), Some(&b"[1,null]"[..]));
        assert_eq!(received.json::<Vec<Option<u8>>>().unwrap(), [Some(1), None]);
        let error = received.json::<String>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
