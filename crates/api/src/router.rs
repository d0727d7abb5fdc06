//! Routes a request to gRPC, the JSON gateway or HTTP.

use std::pin::Pin;
use std::sync::Arc;

use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use ::http::request::Parts;
use ::http::{Method, Request, Response, Version};
use grpc::RequestBody;
use http_body::Body as _;
use net::Connection;

use crate::body::{Body, GrpcResponse};
use crate::drain::{collect, drain_before};
use crate::gateway::{AfterMessage, Gateway, websocket};
use crate::http::{self, Http, Member, Surface};
use crate::services::Grpc;

const GRPC: &str = "application/grpc";

/// The handler of all requests to one kind of port.
#[derive(Debug)]
pub struct Api<M> {
    surface: Surface,
    grpc: Grpc,
    gateway: Gateway,
    http: Arc<Http<M>>,
}

/// The response to a request, by the part that answers it. Both are boxed, so that the future of a
/// request is small while it moves from hyper to its task.
enum Routed<'a> {
    Grpc(GrpcResponse<'a>),
    Http(Pin<Box<dyn Future<Output = Response<Body>> + Send + 'a>>),
}

impl<M: Member> Api<M> {
    /// Creates the handler of a kind of port.
    pub fn new(surface: Surface, grpc: Grpc, http: Arc<Http<M>>) -> Api<M> {
        Api { surface, gateway: Gateway::new(grpc.clone()), grpc, http }
    }

    /// Answers a request.
    pub fn call<'a, B: RequestBody>(
        &'a self,
        connection: &'a Connection,
        request: Request<B>,
    ) -> impl Future<Output = Response<Body>> + Send + 'a {
        let is_grpc = self.is_grpc(connection, &request);
        let response = match (is_grpc, self.is_under_web_server(connection)) {
            (true, false) => Routed::Grpc(self.grpc.dispatch(connection, request)),
            (true, true) => Routed::Grpc(self.grpc.dispatch_by_web(connection, request)),
            (false, _) => Routed::Http(Box::pin(self.call_http(connection, request))),
        };
        async move {
            match response {
                Routed::Grpc(response) => response.await.map(Body::from),
                Routed::Http(response) => response.await,
            }
        }
    }

    /// Answers a request that is not a gRPC call.
    async fn call_http<B: RequestBody>(
        &self,
        connection: &Connection,
        request: Request<B>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        match self.http.gateway_path(self.surface, &head) {
            Some(path) => self.json(connection, &path, &head, body).await,
            None => {
                let (surface, tls) = (self.surface, connection.tls);
                let bytes_max = self.http.body_bytes_max(surface, &head);
                let (content, rest) = collect(body, bytes_max).await;
                let build = || self.http.call(surface, tls, &head, &content);
                let mut response = connection.send_budget.build_charged(build).await;
                drain_before(&head, rest, &mut response).await;
                Body::of_response(response)
            }
        }
    }

    /// Answers a request to the JSON gateway.
    async fn json<B: RequestBody>(
        &self,
        connection: &Connection,
        path: &str,
        head: &Parts,
        body: B,
    ) -> Response<Body> {
        if self.grpc.identifies_by_certificate(connection) {
            return http::refuse_certificate().map(Body::from);
        }
        let response = async {
            match websocket::upgrade_of(head) {
                Some(upgrade) => websocket::accept(&self.gateway, connection, path, head, upgrade),
                None => self.gateway.call(connection, path, head, body, AfterMessage::Read).await,
            }
        };
        let mut response = self.http.admit(connection.tls, head, response).await;
        if head.method == Method::HEAD {
            // The response keeps the length of the body and drops the body.
            let length = std::mem::take(response.body_mut()).size_hint().exact();
            let length = length.filter(|length| *length > 0);
            length.map(|length| response.headers_mut().insert(CONTENT_LENGTH, length.into()));
        }
        response
    }

    /// Compat: as in etcd, HTTP/2 without TLS is always gRPC; with TLS the content type decides.
    fn is_grpc<B>(&self, connection: &Connection, request: &Request<B>) -> bool {
        let has_grpc_type = || {
            let kind = request.headers().get(CONTENT_TYPE);
            kind.and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.contains(GRPC))
        };
        match self.surface {
            Surface::ClientHttpOnly | Surface::Metrics | Surface::Peer => false,
            // `speaks_http1` has refused everything else.
            Surface::ClientGrpcOnly => true,
            Surface::Client if request.version() != Version::HTTP_2 => false,
            // OPTIONS is answered by the CORS handler, whatever the content type.
            Surface::Client if connection.tls => {
                request.method() != Method::OPTIONS && has_grpc_type()
            }
            Surface::Client => true,
        }
    }

    /// Compat: with TLS, etcd serves gRPC under Go's web server, unless the port serves gRPC only.
    fn is_under_web_server(&self, connection: &Connection) -> bool {
        connection.tls && !matches!(self.surface, Surface::ClientGrpcOnly)
    }
}

impl<M: Member + 'static> net::Handler for Api<M> {
    type Body = Body;

    /// Compat: as in etcd, a port that serves gRPC only closes HTTP/1 connections.
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
