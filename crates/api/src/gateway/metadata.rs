//! From the headers of a request to the metadata of a call.
//!
//! ```text
//!   Authorization: Bearer a.1        authorization: Bearer a.1
//!   Grpc-Metadata-HasLeader: true    hasleader: true
//!   Grpc-Timeout: 500m               a deadline
//!   Accept: */*                      nothing that a method here would read
//! ```

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::grpc::{Code, GATEWAY_ACCEPT, Status, illegal_base64_at};

const PREFIX: &str = "grpc-metadata-";
const TIMEOUT: &str = "grpc-timeout";
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const BINARY_SUFFIX: &str = "-bin";

/// What gRPC says itself, and so nobody else may.
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

/// What a call is told beside its message.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) headers: HeaderMap,
    pub(super) timeout: Option<Duration>,
}

impl Metadata {
    pub(super) fn read(headers: &HeaderMap) -> Result<Metadata, Status> {
        let timeout = headers.get(TIMEOUT).filter(|value| !value.is_empty());
        let timeout = timeout.map(timeout_of).transpose()?.flatten();
        // What makes a call one of a gateway, whose certificate says nothing.
        let by_gateway = HeaderMap::from_iter([(GATEWAY_ACCEPT, ANYTHING)]);
        let mut metadata = Metadata { headers: by_gateway, timeout };
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

    /// Metadata is printable ASCII; what is not is passed over, and so is what gRPC keeps for itself, and what nobody here reads since it is bytes.
    fn add(&mut self, name: HeaderName, value: &HeaderValue) {
        let is_text = value.as_bytes().iter().all(|byte| (b' '..=b'~').contains(byte));
        let is_ours = RESERVED.contains(&name.as_str()) || name.as_str().ends_with(BINARY_SUFFIX);
        if is_text && !is_ours {
            self.headers.append(name, value.clone());
        }
    }
}

/// How long a call may take; none for ever.
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
    // Compat: what does not fit wraps, as it does in Go; no time at all is no limit, and what is below it has passed.
    let nanos = count.wrapping_mul(nanos);
    Ok((nanos != 0).then(|| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))))
}

/// Metadata that is said to be bytes has to be base64.
fn check_binary(name: &HeaderName, value: &HeaderValue) -> Result<(), Status> {
    // Compat: as in etcd, only if it is spelled so, and this is how etcd spells it.
    if !name.as_str().ends_with(BINARY_SUFFIX) {
        return Ok(());
    }
    let Some(at) = illegal_base64_at(value.as_bytes()) else { return Ok(()) };
    let name = canonical(name.as_str());
    let text = format!("invalid binary header {name}: illegal base64 data at input byte {at}");
    Err(Status::new(Code::InvalidArgument, text))
}

/// As Go spells the name of a header: `Grpc-Metadata-Foo-Bin`.
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
    fn some_headers_are_metadata() {
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
        assert_eq!(metadata.timeout, None);
    }

    #[test]
    fn a_timeout_has_a_unit() {
        let timeout = |text: &str| read(&[("grpc-timeout", text)]).map(|read| read.timeout);
        assert_eq!(timeout("500m"), Ok(Some(Duration::from_millis(500))));
        assert_eq!(timeout("2H"), Ok(Some(Duration::from_secs(7200))));
        assert_eq!(timeout("0S"), Ok(None));
        assert_eq!(timeout("-1S"), Ok(Some(Duration::ZERO)));
        for text in ["zz", "5", "S", "5s", "5.5S"] {
            let refused = timeout(text).unwrap_err();
            assert_eq!(refused.message, format!("invalid grpc-timeout: {text}"));
            assert_eq!(refused.code, Code::InvalidArgument);
        }
    }

    #[test]
    fn bytes_are_base64() {
        let refused = read(&[("Grpc-Metadata-Foo-Bin", "!!")]).unwrap_err();
        let text =
            "invalid binary header Grpc-Metadata-Foo-Bin: illegal base64 data at input byte 0";
        assert_eq!((refused.code, &*refused.message), (Code::InvalidArgument, text));
    }
}
