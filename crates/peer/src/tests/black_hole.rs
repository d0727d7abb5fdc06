//! A proxy in front of a member that can discard all bytes, in both directions, while it keeps
//! connections open.
//!
//! ```text
//!   member 2 ──dials──► proxy ──► member 1     the streams for messages from 1 to 2
//!   member 1 ──dials──────────────► member 2   the streams for messages from 2 to 1, and requests
//! ```

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use server::Transport as _;
use testkit::waiting::wait_until;

use super::fixture::{FixtureConfig, heartbeat, member};

/// A proxy that can discard all bytes while it keeps connections open.
struct Proxy {
    address: SocketAddr,
    discards: Arc<AtomicBool>,
}

impl Proxy {
    /// Forwards connections to an address.
    fn to(address: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (own, discards) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&discards);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(address) else { continue };
                forward(&client, &server, &flag);
                forward(&server, &client, &flag);
            }
        });
        Proxy { address: own, discards }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Copies one direction until the connection ends, and ends the other connection then.
fn forward(from: &TcpStream, to: &TcpStream, discards: &Arc<AtomicBool>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let discards = Arc::clone(discards);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if !discards.load(Ordering::Acquire) && to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        // Fails if the connection has ended already.
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// etcd keeps such a stream, since its read timeout is without effect, and loses all messages
/// (`TestRecoverSnapshotBackend`).
#[test]
fn a_member_whose_proxy_discards_all_bytes_sends_through_the_pipeline() {
    // Also the time that the streams of the other direction may be silent on a busy machine.
    let timeout = Duration::from_secs(2);
    let [one, two] = [1, 2].map(|id| FixtureConfig { timeout, ..FixtureConfig::of(id) }.start());
    let proxy = Proxy::to(one.address);
    let members = [member(1, &[&proxy.url()]), two.member()];
    for fixture in [&one, &two] {
        fixture.set_members(&members);
        fixture.attach();
    }
    one.until_streams(2);
    two.until_streams(1);
    proxy.discards.store(true, Ordering::Release);
    // Member 2 receives nothing on its streams and closes them; no new ones are established.
    wait_until("the streams to member 2 are lost", || !one.has_streams(2));
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    assert_eq!(two.received(), heartbeat(1, 2, 7));
    // The other direction has streams of its own.
    two.until_streams(1);
    two.transport.send(vec![heartbeat(2, 1, 8)]);
    assert_eq!(one.received(), heartbeat(2, 1, 8));
    proxy.discards.store(false, Ordering::Release);
    one.until_streams(2);
}
