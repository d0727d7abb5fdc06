//! What members ask each other beside consensus, and what is answered.

use std::time::SystemTime;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use membership::reconfig::UnsafeReconfig;
use membership::{ConfChangeRefusal, Member};
use serde::Deserialize;
use server::{Error, PeerHash};
use types::MemberId;

use super::Call;
use super::answer::{self, Answer};
use super::intake::Body;
use crate::headers::{self, CLUSTER_ID, Incompatible};

/// The body of a question.
const QUESTION_BYTES_MAX: usize = 64 << 10;

/// That this member is there, and what time it is here.
pub(super) fn probing() -> Answer {
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    answer::text(format!("{{\"OK\":true,\"Now\":\"{now}\"}}\n"))
}

/// Members as JSON, as Go's encoder writes them, with a newline.
fn listed(members: &[Member]) -> Answer {
    let members: Vec<String> = members.iter().map(Member::to_json).collect();
    answer::json(format!("[{}]\n", members.join(",")))
}

#[derive(Deserialize)]
struct HashQuestion {
    #[serde(default)]
    revision: i64,
}

impl Call<'_> {
    pub(super) fn members(&self) -> Answer {
        self.signed(listed(&self.attached.local.members()))
    }

    pub(super) async fn promote(&self, text: &str, token: Option<String>) -> Answer {
        // Compat: it is in decimal here alone.
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let id = if digits { text.parse().ok().map(MemberId) } else { None };
        let Some(id) = id else {
            let text = format!("member {text} not found in cluster");
            return self.signed(answer::error(StatusCode::NOT_FOUND, text));
        };
        let error = match self.attached.local.promote(token, id).await {
            Ok(members) => return self.signed(listed(&members)),
            Err(error) => error,
        };
        tracing::warn!(member_id = %id, %error, "failed to promote a member");
        self.signed(match error {
            Error::Members(error @ ConfChangeRefusal::IdNotFound) => {
                answer::error(StatusCode::NOT_FOUND, error)
            }
            Error::Members(error @ ConfChangeRefusal::MemberNotLearner) => {
                answer::error(StatusCode::PRECONDITION_FAILED, error)
            }
            Error::Unsafe(error @ UnsafeReconfig::LearnerNotReady) => {
                answer::error(StatusCode::PRECONDITION_FAILED, error)
            }
            _ => answer::json_error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        })
    }

    pub(super) async fn hash(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let cluster = self.attached.identity.cluster.to_string();
        // Whoever says none asks anybody.
        if headers::text(&parts.headers, &CLUSTER_ID).is_some_and(|theirs| theirs != cluster) {
            return answer::error(StatusCode::PRECONDITION_FAILED, Incompatible::ClusterId);
        }
        let bad = |text: &dyn std::fmt::Display| answer::error(StatusCode::BAD_REQUEST, text);
        let body = Body::new(body, self.shared.timing.read).short(QUESTION_BYTES_MAX).await;
        let Ok(body) = body else { return bad(&"error reading body") };
        // Null is an empty question.
        let question = match serde_json::from_slice::<Option<HashQuestion>>(&body) {
            Ok(question) => question.map_or(0, |question| question.revision),
            Err(error) => {
                tracing::warn!(%error, "failed to unmarshal request");
                return bad(&"error unmarshalling request");
            }
        };
        match self.attached.local.hash(question).await {
            Ok(hash) => self.signed(answer::json(hash_json(&hash))),
            Err(error) => {
                tracing::warn!(requested_revision = question, %error, "failed to get hashKV");
                bad(&error)
            }
        }
    }

    pub(super) async fn downgrade(&self) -> Answer {
        self.signed(match self.attached.local.is_downgrading().await {
            Ok(enabled) => {
                let kind = http::HeaderValue::from_static("text/plain");
                answer::body(kind, enabled.to_string())
            }
            Err(error) => answer::error(
                StatusCode::INTERNAL_SERVER_ERROR,
                format_args!("failed linearized read: {error}"),
            ),
        })
    }
}

/// Zeros are left out.
fn hash_json(answer: &PeerHash) -> String {
    let field = |name: &str, number: i64| match number {
        0 => None,
        number => Some(format!("\"{name}\":{number}")),
    };
    let header = field("revision", answer.revision).unwrap_or_default();
    let fields = [
        Some(format!("\"header\":{{{header}}}")),
        field("hash", answer.hash.hash.into()),
        field("compact_revision", answer.hash.compact_revision),
        field("hash_revision", answer.hash.revision),
    ];
    format!("{{{}}}", fields.into_iter().flatten().collect::<Vec<_>>().join(","))
}
