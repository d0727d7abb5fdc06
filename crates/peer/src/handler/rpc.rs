//! Answers the peer RPCs that are not about leases.

use std::time::SystemTime;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use membership::ConfChangeRefusal;
use membership::reconfig::UnsafeReconfig;
use server::Error;
use types::MemberId;

use super::Call;
use super::body_reader::BodyReader;
use super::json;
use super::responses::{self, HandlerResponse};
use crate::headers::{self, CLUSTER_ID, Incompatible};

/// The size limit of a request body.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Answers a probe with the local time.
pub(super) fn probing() -> HandlerResponse {
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    responses::text(json::health(now))
}

impl Call<'_> {
    pub(super) fn members(&self) -> HandlerResponse {
        self.with_cluster_id(responses::json(json::members(&self.attached.local.members())))
    }

    pub(super) async fn promote(&self, text: &str, token: Option<String>) -> HandlerResponse {
        // Compat: this path alone has the id in decimal.
        let Some(id) = headers::decimal_id(text).map(MemberId) else {
            let text = format!("member {text} not found in cluster");
            return self.with_cluster_id(responses::error(StatusCode::NOT_FOUND, text));
        };
        let error = match self.attached.local.promote(token, id).await {
            Ok(members) => return self.with_cluster_id(responses::json(json::members(&members))),
            Err(error) => error,
        };
        tracing::warn!(member_id = %id, %error, "failed to promote a member");
        self.with_cluster_id(match error {
            Error::Members(error @ ConfChangeRefusal::IdNotFound) => {
                responses::error(StatusCode::NOT_FOUND, error)
            }
            Error::Members(error @ ConfChangeRefusal::MemberNotLearner) => {
                responses::error(StatusCode::PRECONDITION_FAILED, error)
            }
            Error::Unsafe(error @ UnsafeReconfig::LearnerNotReady) => {
                responses::error(StatusCode::PRECONDITION_FAILED, error)
            }
            _ => responses::json_error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        })
    }

    pub(super) async fn hash(&self, request: Request<Incoming>) -> HandlerResponse {
        let (parts, body) = request.into_parts();
        let cluster = self.attached.identity.cluster.to_string();
        // A request without a cluster id is accepted.
        if headers::text(&parts.headers, &CLUSTER_ID).is_some_and(|theirs| theirs != cluster) {
            return responses::error(StatusCode::PRECONDITION_FAILED, Incompatible::ClusterId);
        }
        let bad = |text: &dyn std::fmt::Display| responses::error(StatusCode::BAD_REQUEST, text);
        let body =
            BodyReader::new(body, self.shared.timing.read).read_short(REQUEST_BYTES_MAX).await;
        let Ok(body) = body else { return bad(&"error reading body") };
        let revision = match json::hash_revision(&body) {
            Ok(revision) => revision,
            Err(error) => {
                tracing::warn!(%error, "failed to unmarshal request");
                return bad(&"error unmarshalling request");
            }
        };
        match self.attached.local.hash(revision).await {
            Ok(hash) => self.with_cluster_id(responses::json(json::hash(&hash))),
            Err(error) => {
                tracing::warn!(requested_revision = revision, %error, "failed to get hashKV");
                bad(&error)
            }
        }
    }

    pub(super) async fn downgrade(&self) -> HandlerResponse {
        self.with_cluster_id(match self.attached.local.is_downgrading().await {
            Ok(enabled) => {
                let kind = http::HeaderValue::from_static("text/plain");
                responses::body(kind, enabled.to_string())
            }
            Err(error) => responses::error(
                StatusCode::INTERNAL_SERVER_ERROR,
                format_args!("failed linearized read: {error}"),
            ),
        })
    }
}
