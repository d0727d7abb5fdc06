//! A member in a temporary directory, and clients that reach it without a socket.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use api::{Body, Grpc, GrpcConfig};
use bytes::{BufMut as _, Bytes, BytesMut};
use env::Disk;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use net::{Connection, RemoteAddr};
use prost::Message;
use server::{NoPeers, Server, ServerConfig};
use testkit::waiting::TIMEOUT;
use testmember::{Builder, TestMember};
use tonic::{Status, Streaming};

/// A running member with its gRPC services.
pub(crate) struct Fixture {
    member: TestMember,
    server: Server,
    pub(crate) grpc: Grpc,
}

impl Fixture {
    pub(crate) fn start() -> Fixture {
        Fixture::with(|_| {}, GrpcConfig::default())
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig), config: GrpcConfig) -> Fixture {
        Fixture::new(alone().config(change).start(), config)
    }

    /// Starts a member that cannot be elected, because the other one of its cluster never starts.
    pub(crate) fn without_leader() -> Fixture {
        let member = TestMember::builder().config(|config| {
            let url = "http://localhost:2480".to_owned();
            config.initial_cluster.insert("other".to_owned(), vec![url]);
            config.heartbeat = Duration::from_millis(1);
        });
        Fixture::new(member.try_start().unwrap(), GrpcConfig::default())
    }

    /// Starts a member on a disk that the test controls.
    pub(crate) fn on(disk: Arc<dyn Disk>) -> Fixture {
        Fixture::new(alone().disk(disk).start(), GrpcConfig::default())
    }

    fn new(member: TestMember, config: GrpcConfig) -> Fixture {
        let server = member.server();
        let grpc = Grpc::new(server.clone(), config, member.registry()).unwrap();
        Fixture { member, server, grpc }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn registry(&self) -> &prometheus::Registry {
        self.member.registry()
    }

    /// Returns a channel for generated clients.
    pub(crate) fn channel(&self) -> Channel {
        Channel { grpc: self.grpc.clone() }
    }

    /// Sends a request of raw bytes and collects the response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Collected {
        let what = format!("the response to {}", request.uri().path());
        let exchange = async {
            let (parts, body) = self.grpc.call(&connection(), request).await.into_parts();
            (parts, body.collect().await.unwrap())
        };
        let (parts, collected) = within(&what, exchange).await;
        let trailers = collected.trailers().cloned();
        Collected { parts, trailers, body: collected.to_bytes() }
    }

    /// Makes a unary call.
    pub(crate) async fn unary(&self, path: &str, message: &impl Message) -> Collected {
        self.send(post(path).body(Full::new(framed(message))).unwrap()).await
    }

    /// Returns the value of a series in `/metrics`.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = prometheus::TextEncoder::new();
        let text = text.encode_to_string(&self.registry().gather()).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{series} ")))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

/// Returns the only member of a cluster, without a transport.
fn alone() -> Builder {
    TestMember::builder().transport(Arc::new(NoPeers))
}

/// Waits for a future, with the bound of all waits. `what` describes its result.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(TIMEOUT, future).await;
    result.unwrap_or_else(|_| panic!("timed out after {TIMEOUT:?} waiting for {what}"))
}

/// Waits for the next message of a stream, `None` at its end.
pub(crate) async fn message<M>(stream: &mut Streaming<M>) -> Result<Option<M>, Status> {
    within("a message of the stream", stream.message()).await
}

/// A collected response.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) parts: http::response::Parts,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) body: Bytes,
}

impl Collected {
    /// Returns the code and the text, from the trailers or the headers.
    pub(crate) fn status(&self) -> (u16, String) {
        let headers = self.trailers.as_ref().unwrap_or(&self.parts.headers);
        let text = |name: &str| {
            headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        (text("grpc-status").parse().unwrap(), text("grpc-message"))
    }

    /// Decodes all messages of the response.
    pub(crate) fn messages<M: Message + Default>(&self) -> Vec<M> {
        let mut rest = &self.body[..];
        let mut all = Vec::new();
        while let [0, a, b, c, d, remaining @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (message, remaining) = remaining.split_at(length);
            all.push(M::decode(message).unwrap());
            rest = remaining;
        }
        assert!(rest.is_empty(), "incomplete message at the end");
        all
    }
}

/// Creates the head of a call.
pub(crate) fn post(path: &str) -> http::request::Builder {
    Request::post(path)
        .header("host", "localhost")
        .version(http::Version::HTTP_2)
        .header("content-type", "application/grpc")
}

/// Frames a message with its length prefix.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut out).unwrap();
    out.freeze()
}

pub(crate) fn connection() -> Connection {
    Connection::new(RemoteAddr::Unix, false)
}

/// The channel of generated clients.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    grpc: Grpc,
}

impl tonic::codegen::Service<Request<tonic::body::Body>> for Channel {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<tonic::body::Body>) -> Self::Future {
        let grpc = self.grpc.clone();
        request.headers_mut().insert("host", http::HeaderValue::from_static("localhost"));
        Box::pin(async move {
            let what = format!("the response headers of {}", request.uri().path());
            Ok(within(&what, grpc.call(&connection(), request)).await)
        })
    }
}
