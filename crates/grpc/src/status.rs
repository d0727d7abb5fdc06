//! The status of a call: a gRPC code and a text.
//!
//! ```text
//!   grpc-status: 11
//!   grpc-message: etcdserver: mvcc: required revision has been compacted
//! ```
//!
//! Characters of the text that are not printable ASCII are percent-encoded in the header.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The number of codes.
pub const CODES: usize = 17;

/// The gRPC status codes with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as gRPC names them")]
pub enum Code {
    Ok = 0,
    Canceled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// All codes in the order of their numbers.
    pub const ALL: [Code; CODES] = [
        Code::Ok,
        Code::Canceled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];

    /// The name in metrics and texts.
    pub fn name(self) -> &'static str {
        match self {
            Code::Ok => "OK",
            Code::Canceled => "Canceled",
            Code::Unknown => "Unknown",
            Code::InvalidArgument => "InvalidArgument",
            Code::DeadlineExceeded => "DeadlineExceeded",
            Code::NotFound => "NotFound",
            Code::AlreadyExists => "AlreadyExists",
            Code::PermissionDenied => "PermissionDenied",
            Code::ResourceExhausted => "ResourceExhausted",
            Code::FailedPrecondition => "FailedPrecondition",
            Code::Aborted => "Aborted",
            Code::OutOfRange => "OutOfRange",
            Code::Unimplemented => "Unimplemented",
            Code::Internal => "Internal",
            Code::Unavailable => "Unavailable",
            Code::DataLoss => "DataLoss",
            Code::Unauthenticated => "Unauthenticated",
        }
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: Code,
    /// The text, which some clients compare.
    pub message: Cow<'static, str>,
}

impl Status {
    /// The call succeeded.
    pub const OK: Status = Status { code: Code::Ok, message: Cow::Borrowed("") };

    /// The client canceled the call.
    pub const CANCELED: Status =
        Status { code: Code::Canceled, message: Cow::Borrowed("context canceled") };

    /// The deadline of the call passed.
    pub const DEADLINE_EXCEEDED: Status = Status {
        code: Code::DeadlineExceeded,
        message: Cow::Borrowed("context deadline exceeded"),
    };

    /// Creates a status from a code and a text.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Status {
        Status { code, message: message.into() }
    }

    /// Creates a status without a specific code from the text of an error.
    pub fn unknown(error: &dyn fmt::Display) -> Status {
        Status::new(Code::Unknown, error.to_string())
    }

    /// Parses the status in trailers, or in the headers of a response without messages.
    pub fn read_from(headers: &HeaderMap) -> Option<Status> {
        let code = headers.get(GRPC_STATUS)?.to_str().ok()?.parse::<usize>().ok()?;
        let code = Code::ALL.get(code).copied().unwrap_or(Code::Unknown);
        let message = headers.get(GRPC_MESSAGE).map(|text| percent_decoded(text.as_bytes()));
        Some(Status::new(code, message.unwrap_or_default()))
    }

    /// Writes the status to trailers, or to the headers of a response without messages.
    pub(crate) fn write_to(&self, headers: &mut HeaderMap) {
        let code = match self.code {
            // The common case needs no allocation.
            Code::Ok => HeaderValue::from_static("0"),
            code => HeaderValue::from(code as u16),
        };
        headers.insert(GRPC_STATUS, code);
        // Compat: as in grpc-go, present even if empty.
        let message = match &self.message[..] {
            "" => HeaderValue::from_static(""),
            text => HeaderValue::from_str(&percent_encoded(text))
                .unwrap_or(HeaderValue::from_static("")),
        };
        headers.insert(GRPC_MESSAGE, message);
    }
}

/// The format of grpc-go, for a status inside another text, such as the cancel reason of a watch.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rpc error: code = {} desc = {}", self.code.name(), self.message)
    }
}

/// Percent-encodes all but printable ASCII, and the percent sign.
fn percent_encoded(text: &str) -> Cow<'_, str> {
    use fmt::Write as _;
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'%';
    if text.bytes().all(plain) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match plain(byte) {
            true => out.push(byte.into()),
            false => write!(out, "%{byte:02X}").expect("writing to a string never fails"),
        }
    }
    out.into()
}

/// Reverses [`percent_encoded`].
fn percent_decoded(mut text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let hex = rest.first_chunk::<2>().filter(|_| *first == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                text = &rest[2..];
            }
            None => {
                out.push(*first);
                text = rest;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_the_order_of_their_numbers() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, number);
        }
    }

    #[test]
    fn text_is_percent_encoded_for_headers() {
        assert_eq!(percent_encoded("etcdserver: no leader"), "etcdserver: no leader");
        assert_eq!(percent_encoded("50% of\n\"ä\""), "50%25 of%0A\"%C3%A4\"");
    }

    #[test]
    fn a_written_status_is_read_back() {
        for text in ["", "etcdserver: no leader", "50% of\n\"ä\"", "%4"] {
            let status = Status::new(Code::NotFound, text.to_owned());
            let mut headers = HeaderMap::new();
            status.write_to(&mut headers);
            assert_eq!(Status::read_from(&headers), Some(status));
        }
        assert_eq!(Status::read_from(&HeaderMap::new()), None);
    }

    #[test]
    fn the_text_is_present_even_if_empty() {
        let written = |status: Status| {
            let mut headers = HeaderMap::new();
            status.write_to(&mut headers);
            [headers["grpc-status"].clone(), headers["grpc-message"].clone()]
        };
        assert_eq!(written(Status::OK), ["0", ""]);
        assert_eq!(written(Status::CANCELED), ["1", "context canceled"]);
    }
}
