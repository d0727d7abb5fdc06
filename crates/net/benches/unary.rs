//! Measures the server's CPU time per small call: `cargo bench -p net`.
//!
//! Clients hold eight connections with eight calls each in flight, over loopback, in this process
//! but on threads of their own. A call has the shape of a unary gRPC call: headers and a small body
//! as request; headers, a body and trailers as response. The result is the CPU time of the serving
//! thread divided by the number of calls, so it covers this crate and hyper, and nothing of gRPC.
//!
//! `cargo bench -p net -- --quick` and `cargo test --benches` run one short round as a smoke test.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::convert::Infallible;
use std::fs;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use net::{Address, Config, Connection, Handler, Listener, Runtimes, SocketOptions};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 8;
const CALLS_IN_FLIGHT: usize = 8;
const REQUEST_BYTES: usize = 40;

/// Answers every request with these bytes.
struct Answer(Bytes);

impl Handler for Answer {
    type Body = Reply;

    async fn call(&self, _: &Arc<Connection>, request: Request<Incoming>) -> Response<Reply> {
        let request_body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(request_body.len(), REQUEST_BYTES);
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let mut response =
            Response::new(Reply { data: Some(self.0.clone()), trailers: Some(trailers) });
        let grpc = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", grpc);
        response
    }
}

/// A message and trailers.
struct Reply {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }
}

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    // Cargo passes `--bench` when benchmarking, and not when testing.
    let rounds = if has("--bench") && !has("--quick") { 5 } else { 1 };
    let time = if rounds > 1 { Duration::from_secs(3) } else { Duration::from_millis(200) };
    println!("{CONNECTIONS} connections, {CALLS_IN_FLIGHT} calls in flight on each\n");
    for reply_bytes in [20, 300, 4096] {
        let mut costs: Vec<f64> = (0..rounds).map(|_| round(reply_bytes, time)).collect();
        costs.sort_by(f64::total_cmp);
        let (least, median, most) = (costs[0], costs[rounds / 2], costs[rounds - 1]);
        println!(
            "reply of {reply_bytes:>4} bytes  {median:.2} µs a call ({least:.2} to {most:.2})"
        );
    }
}

/// Returns the microseconds of CPU time per call.
fn round(reply_bytes: usize, time: Duration) -> f64 {
    let runtimes = Runtimes::start(1).unwrap();
    let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".into()), SocketOptions::default());
    let handler = Arc::new(Answer(vec![7; reply_bytes].into()));
    let handle = net::serve(&runtimes, listener.unwrap(), handler, Config::default()).unwrap();
    let address = handle.local().tcp().unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let clients = thread::spawn({
        let calls = Arc::clone(&calls);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let ends = Instant::now() + time;
                let clients: Vec<_> = (0..CONNECTIONS)
                    .map(|_| tokio::spawn(client(address.to_string(), ends, Arc::clone(&calls))))
                    .collect();
                for client in clients {
                    client.await.unwrap();
                }
            });
        }
    });
    clients.join().unwrap();
    let cost = processor_time("net-0").as_secs_f64() * 1e6;
    runtimes.block_on(handle.drain(Duration::from_secs(1)));
    #[expect(clippy::cast_precision_loss, reason = "calls are millions")]
    let calls = calls.load(Ordering::Relaxed) as f64;
    cost / calls
}

async fn client(address: String, ends: Instant, calls: Arc<AtomicU64>) {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let callers: Vec<_> = (0..CALLS_IN_FLIGHT)
        .map(|_| tokio::spawn(caller(sender.clone(), ends, Arc::clone(&calls))))
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

async fn caller(mut sender: SendRequest<Full<Bytes>>, ends: Instant, calls: Arc<AtomicU64>) {
    let body = Bytes::from_static(&[7; REQUEST_BYTES]);
    while Instant::now() < ends {
        let request = Request::post("http://localhost/etcdserverpb.KV/Range")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(body.clone()))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let reply = response.into_body().collect().await.unwrap();
        assert!(reply.trailers().is_some());
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the CPU time of the thread with this name.
fn processor_time(name: &str) -> Duration {
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        let matches = fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
        if matches {
            let used = fs::read_to_string(path.join("schedstat")).unwrap();
            return Duration::from_nanos(used.split(' ').next().unwrap().parse().unwrap());
        }
    }
    panic!("no thread is named {name}");
}
