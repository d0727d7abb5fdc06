//! A gRPC server over HTTP/2 request and response bodies. It knows nothing of etcd.
//!
//! ```text
//!   request ─► headers ─► method ─► message ─► interceptor ─► handler ─► reply ─► response
//!              Headers    Method    Messages   (caller's)     (caller's) Reply    Body
//!                 │         │          │           │              │
//!                 └─────────┴──────────┴───────────┴──────────────┴─► Status
//! ```
//!
//! The application above owns a [`MethodTable`] and one [`Transport`]. For each request it reads
//! the [`Headers`], finds the method, builds a [`Call`] with a context and an [`Observer`] of its
//! own, and runs [`Call::unary`], [`Call::server_stream`] or [`Call::bidi_stream`] with an
//! interceptor and a handler. All of it is generic and statically dispatched. A unary call
//! allocates one box for its future and one buffer for its reply.
//!
//! Framing is our own, because replies can be framed from stored bytes without a message in between
//! ([`Reply`]), and because the texts of errors are those of grpc-go, which clients compare.
//!
//! Invariants:
//!
//! - A message is read only when the handler asks for it, and is at most `message_bytes_max` long.
//!   A client that does not read its replies blocks only its own streams. The memory for partially
//!   received messages is bounded over all clients ([`ReceiveBudget`]).
//! - Work on a request ends when the client cancels it or its deadline passes: the handler's future
//!   is dropped and the [`Observer`] sees `Canceled` or `DeadlineExceeded`.
//! - An observer sees each call start once and end once.
//!
//! Connections, HTTP/2 limits and TLS are in [`net`].

mod blocking;
mod body;
mod call;
mod compression;
mod deadline;
mod headers;
mod message;
mod method;
mod observer;
mod receive_budget;
mod reply;
mod status;
mod stream_task;
mod streams;
mod transport;

pub use blocking::{BlockingPool, wait_with_room};
pub use body::Body;
pub use call::{Call, Replies, Requests, ResponseFuture};
pub use deadline::Deadline;
pub use headers::{Headers, Rejection, illegal_base64_at};
#[cfg(fuzzing)]
pub use message::read_pieces;
pub use message::{PREFIX, RequestBody, frame_message};
pub use method::{Kind, Method, MethodTable};
pub use observer::{MessageCounter, Observer};
pub use receive_budget::{ReceiveBudget, ReceiveError, Receiving};
pub use reply::{FramedReply, Reply, Summary};
pub use status::{CODES, Code, Status};
pub use streams::StreamRegistry;
pub use transport::{DecodeError, Transport, TransportConfig};
