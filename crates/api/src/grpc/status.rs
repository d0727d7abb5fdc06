//! How a call ended: a code of gRPC, and a text.
//!
//! ```text
//!   grpc-status: 11
//!   grpc-message: etcdserver: mvcc: required revision has been compacted
//! ```
//!
//! A text may hold anything; what is not printable ASCII is escaped on its way into a header. Which error has which code and text is told by
//! the table in [`errors`](super::errors).

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// How many codes there are.
pub const CODES: usize = 17;

/// The codes of gRPC, with their numbers.
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
    /// All of them, in the order of their numbers.
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

    /// Its name, as metrics and texts have it.
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

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: Code,
    /// The text, for people and for those clients that compare it.
    pub message: Cow<'static, str>,
}

impl Status {
    /// It ended well.
    pub const OK: Status = Status { code: Code::Ok, message: Cow::Borrowed("") };

    /// Whoever asked has given up.
    pub const CANCELED: Status =
        Status { code: Code::Canceled, message: Cow::Borrowed("context canceled") };

    /// Whoever asked would not wait that long.
    pub const DEADLINE_EXCEEDED: Status = Status {
        code: Code::DeadlineExceeded,
        message: Cow::Borrowed("context deadline exceeded"),
    };

    /// A code and a text.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Status {
        Status { code, message: message.into() }
    }

    /// What etcd has no code for goes out with its own text.
    pub fn unknown(error: &dyn fmt::Display) -> Status {
        Status::new(Code::Unknown, error.to_string())
    }

    /// How a call ended, as its trailers say, or the headers of a response that has nothing else; none if they do not say.
    pub(crate) fn read_from(headers: &HeaderMap) -> Option<Status> {
        let code = headers.get(GRPC_STATUS)?.to_str().ok()?.parse::<usize>().ok()?;
        let code = Code::ALL.get(code).copied().unwrap_or(Code::Unknown);
        let message = headers.get(GRPC_MESSAGE).map(|text| unescaped(text.as_bytes()));
        Some(Status::new(code, message.unwrap_or_default()))
    }

    /// Says it in trailers, or in the headers of a response that has nothing else.
    pub(crate) fn write_to(&self, headers: &mut HeaderMap) {
        let code = match self.code {
            // What nearly every call ends with costs nothing.
            Code::Ok => HeaderValue::from_static("0"),
            code => HeaderValue::from(code as u16),
        };
        headers.insert(GRPC_STATUS, code);
        // Compat: as with etcd, also if it is empty.
        let message = match &self.message[..] {
            "" => HeaderValue::from_static(""),
            text => HeaderValue::from_str(&escaped(text)).unwrap_or(HeaderValue::from_static("")),
        };
        headers.insert(GRPC_MESSAGE, message);
    }
}

/// As etcd has it where a status is itself part of a text, such as the reason why a watch is not permitted.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rpc error: code = {} desc = {}", self.code.name(), self.message)
    }
}

/// All but printable ASCII as percent and two hexadecimal digits, and so the percent sign.
fn escaped(text: &str) -> Cow<'_, str> {
    use fmt::Write as _;
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'%';
    if text.bytes().all(plain) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match plain(byte) {
            true => out.push(byte.into()),
            false => write!(out, "%{byte:02X}").expect("a string takes what it is given"),
        }
    }
    out.into()
}

/// The opposite.
fn unescaped(mut text: &[u8]) -> String {
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
    fn codes_are_where_their_numbers_say() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, number);
        }
    }

    #[test]
    fn text_that_is_no_header_value_is_escaped() {
        assert_eq!(escaped("etcdserver: no leader"), "etcdserver: no leader");
        assert_eq!(escaped("50% of\n\"ä\""), "50%25 of%0A\"%C3%A4\"");
    }

    #[test]
    fn what_was_written_can_be_read() {
        for text in ["", "etcdserver: no leader", "50% of\n\"ä\"", "%4"] {
            let status = Status::new(Code::NotFound, text.to_owned());
            let mut headers = HeaderMap::new();
            status.write_to(&mut headers);
            assert_eq!(Status::read_from(&headers), Some(status));
        }
        assert_eq!(Status::read_from(&HeaderMap::new()), None);
    }

    #[test]
    fn a_text_is_always_there() {
        let written = |status: Status| {
            let mut headers = HeaderMap::new();
            status.write_to(&mut headers);
            [headers["grpc-status"].clone(), headers["grpc-message"].clone()]
        };
        assert_eq!(written(Status::OK), ["0", ""]);
        assert_eq!(written(Status::CANCELED), ["1", "context canceled"]);
    }
}
