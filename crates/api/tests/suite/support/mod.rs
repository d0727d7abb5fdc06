//! A member in a temporary directory, and clients that reach it without a socket.

use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use api::{Body, Grpc, GrpcConfig};
use bytes::{BufMut as _, Bytes, BytesMut};
use env::{Disk, OsClock, OsDisk, OsRandom};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use net::{Connection, RemoteAddr};
use prost::Message;
use server::{Member, NoPeers, OutgoingSnapshot, Platform, Server, ServerConfig, Transport};
use tempfile::TempDir;

/// A running member with its gRPC services.
pub(crate) struct Fixture {
    member: Option<Member>,
    pub(crate) grpc: Grpc,
    pub(crate) registry: prometheus::Registry,
    _folder: Option<TempDir>,
}

/// A transport to peers that never answer.
#[derive(Debug)]
struct SilentPeers;

impl Transport for SilentPeers {
    fn send(&self, _: Vec<raft::Message>) {}

    fn send_snapshot(&self, _: OutgoingSnapshot) {}

    fn active_since(&self, _: types::MemberId) -> Option<Duration> {
        None
    }

    fn set_members(&self, _: &membership::Membership) {}
}

impl Fixture {
    pub(crate) fn start() -> Fixture {
        Fixture::with(|_| {}, GrpcConfig::default())
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerConfig), config: GrpcConfig) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let mut server_config = server_config(folder.path());
        server_config.unsafe_no_fsync = true;
        change(&mut server_config);
        let mut fixture = Fixture::run(server_config, Arc::new(OsDisk), config);
        fixture._folder = Some(folder);
        fixture
    }

    /// Starts a member on a disk that the test controls.
    pub(crate) fn on(disk: Arc<dyn Disk>) -> Fixture {
        Fixture::run(server_config(Path::new("/data")), disk, GrpcConfig::default())
    }

    fn run(server_config: ServerConfig, disk: Arc<dyn Disk>, config: GrpcConfig) -> Fixture {
        let machine =
            Platform { disk, clock: Arc::new(OsClock::default()), random: Box::new(OsRandom) };
        let registry = prometheus::Registry::new();
        let is_alone = server_config.initial_cluster.len() == 1;
        let transport: Arc<dyn Transport> =
            if is_alone { Arc::new(NoPeers) } else { Arc::new(SilentPeers) };
        let member = Member::start(server_config, machine, transport, &registry).unwrap();
        let grpc = Grpc::new(member.server().clone(), config, &registry).unwrap();
        Fixture { member: Some(member), grpc, registry, _folder: None }
    }

    pub(crate) fn server(&self) -> &Server {
        self.member.as_ref().unwrap().server()
    }

    /// Returns a channel for generated clients.
    pub(crate) fn channel(&self) -> Channel {
        Channel { grpc: self.grpc.clone() }
    }

    /// Sends a request of raw bytes and collects the response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Collected {
        let response = self.grpc.call(&connection(), request).await;
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.unwrap();
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
        let text = text.encode_to_string(&self.registry.gather()).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{series} ")))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(member) = self.member.take() {
            member.stop();
        }
    }
}

fn server_config(folder: &Path) -> ServerConfig {
    let mut config = ServerConfig::new("default", folder);
    config.heartbeat = Duration::from_millis(20);
    config.bcrypt_cost = 4;
    config
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
    Request::post(path).version(http::Version::HTTP_2).header("content-type", "application/grpc")
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

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let grpc = self.grpc.clone();
        Box::pin(async move { Ok(grpc.call(&connection(), request).await) })
    }
}
