//! The errors of calls to members, with the texts of grpc-go.

use std::borrow::Cow;

use grpc::{Code, Status};

/// The beginning of tonic's text for a response above the limit.
const TONIC_TOO_LARGE: &str = "Error, decoded message length too large: found ";
/// The beginning of grpc-go's.
const RECEIVED_TOO_LARGE: &str = "grpc: received message larger than max (";

/// Converts the status of a call to a member into that of the call of a client.
#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
pub(crate) fn from_tonic(status: tonic::Status) -> Status {
    let code = Code::ALL.get(status.code() as usize).copied().unwrap_or(Code::Unknown);
    if let Some((length, max)) = response_too_large(status.message()) {
        let text = format!("{RECEIVED_TOO_LARGE}{length} vs. {max})");
        return Status::new(Code::ResourceExhausted, text);
    }
    Status::new(code, Cow::Owned(status.message().to_owned()))
}

/// Parses tonic's text for a response above the limit.
fn response_too_large(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix(TONIC_TOO_LARGE)?.strip_suffix(" bytes")?;
    rest.split_once(" bytes, the limit is: ")
}

/// Returns the length of a response that was not received because it is above this limit. A member
/// refuses a request above its own limit with the same text, and another limit in it.
pub(super) fn received_too_large(status: &Status, limit: usize) -> Option<usize> {
    let rest = status.message.strip_prefix(RECEIVED_TOO_LARGE)?.strip_suffix(')')?;
    let (length, max) = rest.split_once(" vs. ")?;
    let (length, max): (usize, usize) = (length.parse().ok()?, max.parse().ok()?);
    (max == limit && length > limit).then_some(length)
}

/// The status of a request above the limit.
pub(crate) fn too_large(length: usize, max: usize) -> tonic::Status {
    tonic::Status::resource_exhausted(format!(
        "trying to send message larger than max ({length} vs. {max})"
    ))
}

/// The status of a call for which no endpoint has a connection.
pub(super) fn not_connected(reason: &str) -> tonic::Status {
    tonic::Status::unavailable(format!(
        "connection error: desc = \"transport: Error while dialing: {reason}\""
    ))
}

/// The status of a call whose connection broke.
pub(super) fn broken(error: &dyn std::error::Error) -> tonic::Status {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    tonic::Status::unavailable(format!("error reading from server: {text}"))
}

/// Returns whether the member did not answer, so that another may.
pub(crate) fn is_unreachable(status: &tonic::Status) -> bool {
    status.code() == tonic::Code::Unavailable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_code_and_text() {
        let status = from_tonic(tonic::Status::out_of_range("etcdserver: mvcc: required revision"));
        assert_eq!(status.code, Code::OutOfRange);
        assert_eq!(status.message, "etcdserver: mvcc: required revision");
    }

    #[test]
    fn messages_above_a_limit_have_grpc_gos_texts() {
        let text = format!("{TONIC_TOO_LARGE}10 bytes, the limit is: 5 bytes");
        let status = from_tonic(tonic::Status::out_of_range(text));
        assert_eq!(status.code, Code::ResourceExhausted);
        assert_eq!(status.message, "grpc: received message larger than max (10 vs. 5)");
        assert_eq!(received_too_large(&status, 5), Some(10));
        assert_eq!(received_too_large(&status, 7), None, "the limit of a member");
        let status = from_tonic(too_large(10, 5));
        assert_eq!(status.message, "trying to send message larger than max (10 vs. 5)");
        assert_eq!(received_too_large(&status, 5), None);
    }
}
