//! Clients: hyper's, and one that sends raw bytes.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::handler::within;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;

/// An HTTP/2 connection, and the task that drives it.
pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Full<Bytes>>,
    pub(crate) ended: JoinHandle<hyper::Result<()>>,
}

impl Http2 {
    pub(crate) async fn connect(address: &str) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = within("the HTTP/2 handshake", handshake).await.unwrap();
        Self { sender, ended: tokio::spawn(connection) }
    }

    pub(crate) async fn get(&self, path: &str) -> hyper::Result<String> {
        self.post(path, Bytes::new()).await.map(|body| String::from_utf8(body.into()).unwrap())
    }

    pub(crate) async fn post(&self, path: &str, body: Bytes) -> hyper::Result<Bytes> {
        let request = request(&format!("http://localhost{path}"), body);
        let mut sender = self.sender.clone();
        let exchange = async { body_of(sender.send_request(request).await?).await };
        within(&format!("the response to {path}"), exchange).await
    }

    /// Waits until the connection has ended without an error.
    pub(crate) async fn wait_for_end(self) {
        within("the end of the connection", self.ended).await.unwrap().unwrap();
    }
}

/// An HTTP/1 connection.
pub(crate) struct Http1 {
    sender: http1::SendRequest<Full<Bytes>>,
    pub(crate) ended: JoinHandle<hyper::Result<()>>,
}

impl Http1 {
    pub(crate) async fn connect(address: &str) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let handshake = http1::handshake(TokioIo::new(stream));
        let (sender, connection) = within("the HTTP/1 handshake", handshake).await.unwrap();
        Self { sender, ended: tokio::spawn(connection) }
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<String> {
        self.post(path, Bytes::new()).await.map(|body| String::from_utf8(body.into()).unwrap())
    }

    pub(crate) async fn post(&mut self, path: &str, body: Bytes) -> hyper::Result<Bytes> {
        let exchange =
            async { body_of(self.sender.send_request(request(path, body)).await?).await };
        within(&format!("the response to {path}"), exchange).await
    }

    /// Waits until the connection has ended without an error.
    pub(crate) async fn wait_for_end(self) {
        within("the end of the connection", self.ended).await.unwrap().unwrap();
    }
}

fn request(uri: &str, body: Bytes) -> Request<Full<Bytes>> {
    Request::post(uri).header("host", "localhost").body(Full::new(body)).unwrap()
}

async fn body_of(response: Response<Incoming>) -> hyper::Result<Bytes> {
    response.into_body().collect().await.map(http_body_util::Collected::to_bytes)
}

/// Sends raw bytes.
pub(crate) struct Raw(pub(crate) TcpStream);

/// An HTTP/2 frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self { kind, flags, stream, payload: payload.to_vec() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let stream = self.stream.to_be_bytes();
        [&length[1..], &[self.kind, self.flags], &stream, &self.payload].concat()
    }
}

impl Raw {
    pub(crate) async fn connect(address: &str) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Connects and sends the preface and the first SETTINGS frame.
    pub(crate) async fn connect_http2(address: &str) -> Self {
        let mut raw = Self::connect(address).await;
        raw.send(PREFACE).await;
        raw.send(&Frame::new(SETTINGS, 0, 0, &[]).encode()).await;
        raw
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        within("the server to read", self.0.write_all(bytes)).await.unwrap();
    }

    /// Sends the end of the connection. Responses can still be read.
    pub(crate) async fn close_write(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    pub(crate) async fn ping(&mut self) {
        self.send(&Frame::new(PING, 0, 0, b"8 bytes!").encode()).await;
    }

    /// Reads the next frame, or `None` when the server has closed.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        within("a frame", self.read_frame()).await
    }

    async fn read_frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.0.read_exact(&mut header).await.ok()?;
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
        self.0.read_exact(&mut payload).await.unwrap();
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]), payload })
    }

    /// Reads until the next frame of a type.
    pub(crate) async fn frame_of(&mut self, kind: u8) -> Frame {
        let found = async {
            loop {
                let frame = self.read_frame().await.expect("the server closed before the frame");
                if frame.kind == kind {
                    return frame;
                }
            }
        };
        within(&format!("a frame of type {kind}"), found).await
    }

    /// Reads frames until the server closes.
    pub(crate) async fn skip_to_end(&mut self) {
        within("the server to close", async { while self.read_frame().await.is_some() {} }).await;
    }

    /// Reads bytes until these have been read.
    pub(crate) async fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut received = Vec::new();
        let reading = async {
            while !received.ends_with(end) {
                received.push(self.0.read_u8().await.unwrap());
            }
        };
        within(&format!("the bytes {end:?}"), reading).await;
        received
    }

    /// Reads until the server closes.
    pub(crate) async fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        within("the server to close", self.0.read_to_end(&mut bytes)).await.unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads until the server closes, perhaps before it has read all that was sent: the system
    /// then resets the connection.
    pub(crate) async fn read_to_end_or_reset(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = within("the server to close", self.0.read_to_end(&mut bytes)).await;
        if let Err(error) = read {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
