//! A member for tests: hands every unary call to the test, which answers it. Streams stay open
//! without an answer.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use grpc::Code;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use testkit::waiting::TIMEOUT;
use tls::ClientTls;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::upstream::{Upstream, UpstreamSettings};

type AnswerBody = BoxBody<Bytes, Infallible>;

/// A member. Dropping it ends it.
pub(crate) struct FakeMember {
    pub(crate) address: String,
    calls: mpsc::UnboundedReceiver<ReceivedCall>,
    _serving: JoinSet<()>,
}

/// A call that waits for its answer.
pub(crate) struct ReceivedCall {
    path: String,
    answer: oneshot::Sender<Response<AnswerBody>>,
}

impl FakeMember {
    pub(crate) async fn start() -> FakeMember {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, calls) = mpsc::unbounded_channel();
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, sender));
        FakeMember { address, calls, _serving: serving }
    }

    /// Returns the connections to this member alone.
    pub(crate) fn upstream(&self) -> Upstream {
        upstream(&[&self.address])
    }

    /// Waits for a call of a method.
    pub(crate) async fn next(&mut self, method: &str) -> ReceivedCall {
        let call = self.next_of_any_method().await;
        assert!(call.path.ends_with(&format!("/{method}")), "expected {method}, got {}", call.path);
        call
    }

    /// Waits for a call.
    async fn next_of_any_method(&mut self) -> ReceivedCall {
        let call = timeout(TIMEOUT, self.calls.recv()).await;
        call.expect("timed out waiting for a call to the member").expect("the member runs")
    }

    /// Returns a call that has arrived, if there is one.
    pub(crate) fn try_next(&mut self) -> Option<ReceivedCall> {
        self.calls.try_recv().ok()
    }
}

impl ReceivedCall {
    /// Answers with a response.
    pub(crate) fn answer(self, response: &impl Message) {
        let mut frame = BytesMut::new();
        // Not compressed.
        frame.put_u8(0);
        frame.put_u32(u32::try_from(response.encoded_len()).unwrap());
        frame.put_slice(&response.encode_to_vec());
        let trailers = HeaderMap::from_iter([(status_header(), HeaderValue::from_static("0"))]);
        let body = Full::new(frame.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
        self.send(Response::new(body.boxed()));
    }

    /// Answers with an error.
    pub(crate) fn refuse(self, code: Code) {
        let mut response = Response::new(Empty::new().boxed());
        response.headers_mut().insert(status_header(), HeaderValue::from(code as u16));
        self.send(response);
    }

    fn send(self, mut response: Response<AnswerBody>) {
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        // A caller that has given up takes no answer.
        let _ = self.answer.send(response);
    }
}

fn status_header() -> http::HeaderName {
    http::HeaderName::from_static("grpc-status")
}

async fn accept(listener: TcpListener, calls: mpsc::UnboundedSender<ReceivedCall>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let calls = calls.clone();
        let service = service_fn(move |request| receive(request, calls.clone()));
        let connection = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move {
            // A proxy that disconnects is no failure of a test.
            let _ = connection.await;
        });
    }
}

async fn receive(
    request: Request<Incoming>,
    calls: mpsc::UnboundedSender<ReceivedCall>,
) -> Result<Response<AnswerBody>, hyper::Error> {
    let (head, body) = request.into_parts();
    // The whole request: the test does not see streams, which do not end.
    body.collect().await?;
    let (answer, answered) = oneshot::channel();
    let call = ReceivedCall { path: head.uri.path().to_owned(), answer };
    // A call that the test drops is never answered.
    match calls.send(call) {
        Ok(()) => match answered.await {
            Ok(response) => Ok(response),
            Err(_) => std::future::pending().await,
        },
        Err(_) => std::future::pending().await,
    }
}

/// Returns connections to endpoints, which are not opened yet.
pub(crate) fn upstream(endpoints: &[&str]) -> Upstream {
    Upstream::new(settings(endpoints), Handle::current()).unwrap()
}

/// Returns the settings of connections to endpoints.
pub(crate) fn settings(endpoints: &[&str]) -> UpstreamSettings {
    let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
    let tls = ClientTls::load("test", tls::Info::default(), &metrics).unwrap();
    UpstreamSettings {
        endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        tls: Arc::new(tls),
        secure_by_default: false,
        dial_timeout: TIMEOUT,
        keepalive_time: None,
        keepalive_timeout: TIMEOUT,
        keepalive_when_idle: false,
        proxies: Arc::default(),
        send_bytes_max: 0,
        recv_bytes_max: 0,
    }
}
