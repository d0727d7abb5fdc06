//! Translates the headers of a request to the metadata of a call.
//!
//! ```text
//!   Authorization: Bearer a.1        authorization: Bearer a.1
//!   Grpc-Metadata-HasLeader: true    hasleader: true
//!   Grpc-Timeout: 500m               a deadline
//!   Accept: */*                      dropped: no method reads it
//! ```

use std::time::Duration;

use grpc::{Code, Deadline, Status, illegal_base64_at};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::interceptor::GATEWAY_ACCEPT;

const PREFIX: &str = "grpc-metadata-";
const TIMEOUT: &str = "grpc-timeout";
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const BINARY_SUFFIX: &str = "-bin";

/// Headers of gRPC itself, which a client must not set as metadata.
const RESERVED: [&str; 8] = [
    "content-type",
    "grpc-encoding",
    "grpc-message",
    "grpc-message-type",
    "grpc-status",
    "grpc-timeout",
    "te",
    "user-agent",
];

/// The metadata and deadline of a call.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) headers: HeaderMap,
    pub(super) deadline: Deadline,
}

impl Metadata {
    pub(super) fn read(headers: &HeaderMap) -> Result<Metadata, Status> {
        let timeout = headers.get(TIMEOUT).filter(|value| !value.is_empty());
        let timeout = timeout.map(timeout_of).transpose()?.flatten();
        // Marks the call as one of the gateway, so that the certificate is ignored.
        let by_gateway = HeaderMap::from_iter([(GATEWAY_ACCEPT, ANYTHING)]);
        let deadline = timeout.map_or_else(Deadline::default, Deadline::after);
        let mut metadata = Metadata { headers: by_gateway, deadline };
        for (name, value) in headers {
            if name == AUTHORIZATION {
                metadata.add(name.clone(), value);
            } else if let Some(inner) = name.as_str().strip_prefix(PREFIX) {
                check_binary(name, value)?;
                if let Ok(inner) = HeaderName::from_bytes(inner.as_bytes()) {
                    metadata.add(inner, value);
                }
            }
        }
        Ok(metadata)
    }

    /// Adds a header, unless it is not printable ASCII, reserved, or binary, which no method reads.
    fn add(&mut self, name: HeaderName, value: &HeaderValue) {
        let is_text = value.as_bytes().iter().all(|byte| (b' '..=b'~').contains(byte));
        let is_reserved =
            RESERVED.contains(&name.as_str()) || name.as_str().ends_with(BINARY_SUFFIX);
        if is_text && !is_reserved {
            self.headers.append(name, value.clone());
        }
    }
}

/// Parses a timeout; none if the call has no deadline.
fn timeout_of(value: &HeaderValue) -> Result<Option<Duration>, Status> {
    let text = String::from_utf8_lossy(value.as_bytes());
    let refused = || Status::new(Code::InvalidArgument, format!("invalid grpc-timeout: {text}"));
    let (count, unit) = text.split_at_checked(text.len() - 1).ok_or_else(refused)?;
    let nanos: i64 = match unit {
        "H" => 3_600_000_000_000,
        "M" => 60_000_000_000,
        "S" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1_000,
        "n" => 1,
        _ => return Err(refused()),
    };
    let count: i64 = count.parse().map_err(|_| refused())?;
    // Compat: as in Go, an overflow wraps; zero means no deadline, and a negative timeout has
    // passed.
    let nanos = count.wrapping_mul(nanos);
    Ok((nanos != 0).then(|| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))))
}

/// Checks that binary metadata is base64.
fn check_binary(name: &HeaderName, value: &HeaderValue) -> Result<(), Status> {
    // Compat: etcd compares the canonical spelling `-Bin`; names are lowercase here.
    if !name.as_str().ends_with(BINARY_SUFFIX) {
        return Ok(());
    }
    let Some(at) = illegal_base64_at(value.as_bytes()) else { return Ok(()) };
    let name = canonical(name.as_str());
    let text = format!("invalid binary header {name}: illegal base64 data at input byte {at}");
    Err(Status::new(Code::InvalidArgument, text))
}

/// Returns Go's canonical spelling of a header name: `Grpc-Metadata-Foo-Bin`.
fn canonical(name: &str) -> String {
    let capital = |part: &str| {
        let (first, rest) = part.split_at(part.len().min(1));
        format!("{}{rest}", first.to_ascii_uppercase())
    };
    name.split('-').map(capital).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Result<Metadata, Status> {
        let headers = headers.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        Metadata::read(&headers.collect())
    }

    #[test]
    fn prefixed_headers_and_authorization_become_metadata() {
        let metadata = read(&[
            ("Accept", "*/*"),
            ("Authorization", "Bearer a.1"),
            ("Grpc-Metadata-HasLeader", "true"),
            ("Grpc-Metadata-Grpc-Timeout", "1S"),
            ("Grpc-Metadata-X-Bin", "AAEC"),
        ])
        .unwrap();
        assert_eq!(metadata.headers.len(), 3);
        assert_eq!(metadata.headers["grpcgateway-accept"], "*/*");
        assert_eq!(metadata.headers["authorization"], "Bearer a.1");
        assert_eq!(metadata.headers["hasleader"], "true");
        assert!(!metadata.deadline.has_passed());
    }

    #[test]
    fn a_timeout_needs_a_number_and_a_unit() {
        let timeout = |text: &'static str| timeout_of(&HeaderValue::from_static(text));
        assert_eq!(timeout("500m"), Ok(Some(Duration::from_millis(500))));
        assert_eq!(timeout("2H"), Ok(Some(Duration::from_secs(7200))));
        assert_eq!(timeout("0S"), Ok(None));
        assert_eq!(timeout("-1S"), Ok(Some(Duration::ZERO)));
        for text in ["zz", "5", "S", "5s", "5.5S"] {
            let refused = timeout(text).unwrap_err();
            assert_eq!(refused.message, format!("invalid grpc-timeout: {text}"));
            assert_eq!(refused.code, Code::InvalidArgument);
        }
        for text in ["1n", "-1S"] {
            assert!(read(&[("grpc-timeout", text)]).unwrap().deadline.has_passed(), "{text}");
        }
    }

    #[test]
    fn binary_metadata_must_be_base64() {
        let refused = read(&[("Grpc-Metadata-Foo-Bin", "!!")]).unwrap_err();
        let text =
            "invalid binary header Grpc-Metadata-Foo-Bin: illegal base64 data at input byte 0";
        assert_eq!((refused.code, &*refused.message), (Code::InvalidArgument, text));
    }
}
