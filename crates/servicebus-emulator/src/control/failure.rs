use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;
use servicebus_emulator::NotManual;
use servicebus_emulator::broker::Error;

/// Why a request failed: a status and `{"error": {"code", "message"}}`.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    code: String,
    message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = u16::try_from(error.status()).ok();
        Self {
            status: status
                .and_then(|status| StatusCode::from_u16(status).ok())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: error.condition().as_str().to_owned(),
            message: error.text().to_owned(),
        }
    }
}

impl From<NotManual> for Failure {
    fn from(error: NotManual) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            code: "clock-not-manual".into(),
            message: format!("{error} (--manual-clock)"),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        (self.status, Json(body)).into_response()
    }
}

/// A JSON body; what is wrong with it is told as other failures are.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let parsed: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        match parsed {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(Failure {
                status: rejection.status(),
                code: "bad-request".into(),
                message: rejection.body_text(),
            }),
        }
    }
}
