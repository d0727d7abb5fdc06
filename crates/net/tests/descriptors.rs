//! A server out of file descriptors resumes accepting when some are free. Alone in its process,
//! whose limit it changes.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use net::{Address, Config, Connection, Handler, Listener, Runtimes, SocketOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testkit::waiting::TIMEOUT;
use tracing::field::{Field, Visit};

struct Fine;

impl Handler for Fine {
    type Body = Full<Bytes>;

    async fn call(&self, _: &Arc<Connection>, _: Request<Incoming>) -> Response<Full<Bytes>> {
        Response::new("fine".into())
    }
}

/// Forwards the logged messages.
struct Log(mpsc::SyncSender<String>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("net") && *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        // The channel is full once the test has seen enough.
        let _ = self.0.try_send(text.0);
    }
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

#[test]
fn accepting_resumes_when_descriptors_are_free() {
    let (sender, log) = mpsc::sync_channel(100);
    tracing::subscriber::set_global_default(Log(sender)).unwrap();
    let runtimes = Runtimes::start(2).unwrap();
    let address = Address::Tcp("127.0.0.1:0".into());
    let listener = Listener::bind(&address, SocketOptions::default()).unwrap();
    let mut client = TcpStream::connect(listener.local().tcp().unwrap()).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();

    // From here on the process can open no descriptor.
    let before = getrlimit(Resource::Nofile);
    let lowest = File::open("/dev/null").unwrap().as_raw_fd();
    let current = Some(u64::try_from(lowest).unwrap());
    setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
    let handle = net::serve(&runtimes, listener, Arc::new(Fine), Config::default()).unwrap();
    for _ in 0..3 {
        let message = log.recv_timeout(TIMEOUT).expect("an error is logged");
        assert!(message.contains("failed to accept a connection"), "{message}");
        assert!(message.contains("os error 24"), "{message}");
    }
    assert_eq!(handle.connections(), 0);

    setrlimit(Resource::Nofile, before).unwrap();
    let mut answer = String::new();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.read_to_string(&mut answer).expect("timed out waiting for the response");
    assert!(answer.ends_with("\r\n\r\nfine"), "{answer}");
    client.shutdown(Shutdown::Both).unwrap();
    runtimes.stop();
}
