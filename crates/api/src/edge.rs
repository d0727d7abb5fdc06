//! Which of the three a request is for.

use std::sync::Arc;

use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use ::http::request::Parts;
use ::http::{Method, Request, Response, Version};
use http_body::Body as _;
use net::Connection;

use crate::body::Body;
use crate::gateway::{Gateway, Rest, websocket};
use crate::grpc::{Grpc, RequestBody};
use crate::http::{self, Http, Member, Surface};
use crate::unread::discard;

const GRPC: &str = "application/grpc";

/// All that a port offers.
#[derive(Debug)]
pub struct Api<M> {
    surface: Surface,
    grpc: Grpc,
    gateway: Gateway,
    http: Arc<Http<M>>,
}

impl<M: Member> Api<M> {
    /// What a port offers depends on what it is for.
    pub fn new(surface: Surface, grpc: Grpc, http: Arc<Http<M>>) -> Api<M> {
        Api { surface, gateway: Gateway::new(grpc.clone()), grpc, http }
    }

    /// Answers a request.
    pub async fn call<B: RequestBody>(
        &self,
        connection: &Connection,
        request: Request<B>,
    ) -> Response<Body> {
        if self.is_grpc(connection, &request) {
            return match self.is_by_web(connection) {
                true => self.grpc.call_by_web(connection, request).await,
                false => self.grpc.call(connection, request).await,
            };
        }
        let (asked, body) = request.into_parts();
        match self.http.gateway_path(self.surface, &asked) {
            Some(path) => self.json(connection, &path, &asked, body).await,
            None => {
                let answer = self.http.call(self.surface, connection.tls, &asked).await;
                discard(body).await;
                answer.map(Body::from)
            }
        }
    }

    /// A request of the JSON gateway.
    async fn json<B: RequestBody>(
        &self,
        connection: &Connection,
        path: &str,
        asked: &Parts,
        body: B,
    ) -> Response<Body> {
        if self.grpc.knows_by_certificate(connection) {
            return http::refuse_certificate().map(Body::from);
        }
        let answer = async {
            match websocket::wanted(asked) {
                Some(upgrade) => websocket::accept(&self.gateway, connection, path, asked, upgrade),
                None => self.gateway.call(connection, path, asked, body, Rest::Read).await,
            }
        };
        let mut response = self.http.admit(connection.tls, asked, answer).await;
        if asked.method == Method::HEAD {
            // The length stays; what it counts is not sent.
            let length = std::mem::take(response.body_mut()).size_hint().exact();
            let length = length.filter(|length| *length > 0);
            length.map(|length| response.headers_mut().insert(CONTENT_LENGTH, length.into()));
        }
        response
    }

    /// Compat: without TLS, etcd tells the two apart by the version of HTTP alone; with it, by what the request says it holds.
    fn is_grpc<B>(&self, connection: &Connection, request: &Request<B>) -> bool {
        let says_so = || {
            let kind = request.headers().get(CONTENT_TYPE);
            kind.and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.contains(GRPC))
        };
        match self.surface {
            Surface::ClientHttpOnly | Surface::Metrics | Surface::Peer => false,
            // Nothing else gets here: see `speaks_http1`.
            Surface::ClientGrpcOnly => true,
            Surface::Client if request.version() != Version::HTTP_2 => false,
            // Whoever asks what may be asked gets that answer, whatever it is about.
            Surface::Client if connection.tls => request.method() != Method::OPTIONS && says_so(),
            Surface::Client => true,
        }
    }

    /// Compat: with TLS, etcd has a web server take calls, unless gRPC is served alone.
    fn is_by_web(&self, connection: &Connection) -> bool {
        connection.tls && !matches!(self.surface, Surface::ClientGrpcOnly)
    }
}

impl<M: Member + 'static> net::Handler for Api<M> {
    type Body = Body;

    /// Compat: where gRPC is served alone, a connection of HTTP/1 is closed.
    fn speaks_http1(&self) -> bool {
        !matches!(self.surface, Surface::ClientGrpcOnly)
    }

    async fn call(
        &self,
        connection: &Arc<Connection>,
        request: Request<hyper::body::Incoming>,
    ) -> Response<Body> {
        Api::call(self, connection, request).await
    }
}
