//! Differences between hyper and Go in reading HTTP/1 requests.
//!
//! etcd's clients and proxies see the rules of Go's server: which heads are refused and with which
//! bytes, which host and path a request has, and where its body ends. hyper accepts some requests
//! that Go refuses (two hosts, two transfer codings), refuses others without a body, and drops the
//! fragment of a target. So hyper does not read from the socket. A [`RequestReader`] stands between
//! them; it parses each request by Go's rules and hands hyper an equivalent one that leaves nothing
//! to interpretation:
//!
//! ```text
//!   socket                               hyper
//!   POST http://b/v3/kv#x HTTP/1.1       POST /v3/kv%23x HTTP/1.1
//!   Host: a                              host: b
//!   Content-Length: 2                    x: 1 2
//!   X: 1
//!    2                                   transfer-encoding: chunked
//!   Transfer-Encoding: Chunked
//!
//!   5;ext=1 CRLF hello CRLF 0 CRLF …     5 CRLF hello CRLF 0 CRLF CRLF
//!
//!   GET /%zz HTTP/1.1                    end of input; the socket gets
//!                                        HTTP/1.1 400 Bad Request …
//! ```
//!
//! Invariants:
//!
//! - hyper sees only heads and chunk sizes that were written here, so both agree on where a request
//!   ends: no request can hide in the body of another.
//! - The next head is parsed when the response to the last request is complete ([`Exchange`]), as
//!   in Go. A refusal therefore never overtakes a response.
//! - The head of a request is bounded by [`HEADER_BYTES_MAX`](crate::HEADER_BYTES_MAX) and
//!   [`HTTP1_HEADERS_MAX`](crate::config::HTTP1_HEADERS_MAX); its lines are scanned once.

mod chunks;
mod exchange;
mod fields;
mod head;
mod reader;
mod refusal;

pub(crate) use exchange::{Exchange, ExchangeBody};
pub(crate) use reader::{FirstLine, RequestReader};
