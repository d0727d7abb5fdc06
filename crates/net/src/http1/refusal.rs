//! Refusals of a request head, with the bytes that Go's server sends.

/// The reason why the head of a request is refused. The connection ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The first line of a connection is not HTTP/1. As with etcd's multiplexer, there is no
    /// response.
    NotHttp1,
    /// The head is malformed.
    Malformed,
    /// The head is malformed in a way that Go names.
    Invalid(&'static str),
    TransferEncoding,
    Version,
    TooLarge,
}

impl Refusal {
    /// Returns the reason for logs.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NotHttp1 => "its first line is not HTTP/1",
            Self::Malformed => "malformed head",
            Self::Invalid(what) => what,
            Self::TransferEncoding => "unsupported transfer encoding",
            Self::Version => "unsupported protocol version",
            Self::TooLarge => "too many or too long header fields",
        }
    }

    /// Returns the whole response.
    pub(super) fn response(self) -> Vec<u8> {
        let (status, body) = match self {
            Self::NotHttp1 => return Vec::new(),
            Self::Malformed => ("400 Bad Request".to_owned(), None),
            Self::Invalid(what) => (format!("400 Bad Request: {what}"), None),
            Self::TransferEncoding => {
                ("501 Not Implemented".to_owned(), Some("Unsupported transfer encoding"))
            }
            Self::Version => {
                ("505 HTTP Version Not Supported: unsupported protocol version".to_owned(), None)
            }
            Self::TooLarge => ("431 Request Header Fields Too Large".to_owned(), None),
        };
        let body = body.unwrap_or(&status);
        let fields = "Content-Type: text/plain; charset=utf-8\r\nConnection: close";
        format!("HTTP/1.1 {status}\r\n{fields}\r\n\r\n{body}").into_bytes()
    }
}
