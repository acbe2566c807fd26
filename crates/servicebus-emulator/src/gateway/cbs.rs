use servicebus_amqp::types::{Symbol, Value, condition};

use super::client::Client;
use super::names::rpc;
use super::node::{Reply, Request};
use crate::access::{TokenError, audience_path};

impl Client {
    /// `put-token`: notes what the client may do, until when.
    pub(super) fn on_put_token(&mut self, request: &Request) -> Reply {
        if request.operation != rpc::PUT_TOKEN {
            let text = format!(
                "Unknown operation '{}': $cbs knows put-token.",
                request.operation
            );
            return refusal(400, condition::NOT_IMPLEMENTED, text);
        }
        let audience = request.properties.get(rpc::NAME).and_then(Value::as_text);
        let token = match &request.body {
            Value::String(token) => Some(&**token),
            Value::Binary(token) => std::str::from_utf8(token).ok(),
            _ => None,
        };
        let (Some(audience), Some(token)) = (audience, token) else {
            let text =
                "put-token takes the audience in the property 'name' and the token as the body.";
            return refusal(400, condition::INVALID_FIELD, text.into());
        };
        let now = self.hub.now();
        let host = self.host.as_deref();
        // Without the lock of anything shared but this: the check may run a hook of the emulator's user.
        let checked = self.hub.access().check_token(token, audience, host, now);
        let claim = match checked {
            Ok(claim) => claim,
            Err(error @ TokenError::Malformed(_)) => {
                return refusal(400, condition::INVALID_FIELD, error.to_string());
            }
            Err(error) => {
                return refusal(401, condition::UNAUTHORIZED_ACCESS, error.to_string());
            }
        };
        // What the service says where a token names an entity that is not there; SDKs tell it from a refused token.
        let path = audience_path(audience);
        if !path.is_empty() {
            let found = self
                .hub
                .read(|core| core.broker.resolve(&claim.namespace, &path));
            if let Err(error) = found {
                return refusal(error.status(), error.condition(), error.text().into());
            }
        }
        let of_another = self
            .claims
            .namespace()
            .is_some_and(|namespace| *namespace != claim.namespace);
        if of_another {
            let text = "The tokens of one connection are for one namespace.";
            return refusal(403, condition::NOT_ALLOWED, text.into());
        }
        if let Some(expires) = claim.expires
            && self.policy == crate::access::Policy::Required
        {
            self.expire_claim_at(expires);
        }
        if !self.claims.put(claim) {
            let text = "The connection has too many tokens.";
            return refusal(403, condition::RESOURCE_LIMIT_EXCEEDED, text.into());
        }
        Reply {
            status: 202,
            description: "Accepted".into(),
            condition: None,
            body: Value::Null,
        }
    }
}

fn refusal(status: i32, condition: Symbol, description: String) -> Reply {
    Reply {
        status,
        description,
        condition: Some(condition),
        body: Value::Null,
    }
}
