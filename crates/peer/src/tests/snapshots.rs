//! Snapshots, complete and truncated.

use std::io::{self, Write};

use raft::{Message, MessageType, Snapshot, SnapshotMetadata};
use types::{Index, MemberId, Term};

use super::fixture::{Event, FixtureConfig, TransportFixture, cluster, headers, member};
use crate::send::snapshot::SnapshotDatabase;

/// A database of `size` bytes, of which the first `sound` can be read.
struct Bytes {
    size: usize,
    sound: usize,
}

impl SnapshotDatabase for Bytes {
    fn size(&self) -> u64 {
        self.size as u64
    }

    fn write_to(&self, to: &mut dyn Write) -> io::Result<u64> {
        to.write_all(&content(self.sound))?;
        if self.sound < self.size { Err(io::Error::other("bad page")) } else { Ok(self.size()) }
    }
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| at.wrapping_mul(31).to_le_bytes()[1]).collect()
}

fn message(kind: MessageType) -> Message {
    let metadata =
        SnapshotMetadata { index: Index(9), term: Term(2), ..SnapshotMetadata::default() };
    let snapshot = Snapshot { metadata, data: b"{}"[..].into() };
    Message {
        kind,
        from: MemberId(1),
        to: MemberId(2),
        term: Term(2),
        snapshot: Some(Box::new(snapshot)),
        ..Message::default()
    }
}

fn send(from: &TransportFixture, database: Bytes, kind: MessageType) {
    let shared = from.transport.shared();
    let peer = shared.peers().get(MemberId(2)).cloned().unwrap();
    peer.send_snapshot(message(kind), database);
}

fn next_but_unreachable(fixture: &TransportFixture) -> Event {
    fixture.next(|event| !matches!(event, Event::Unreachable(_)))
}

#[test]
fn snapshots_of_any_size_arrive() {
    let [one, two] = cluster();
    for size in [0, 1, 100_000, 5 << 20] {
        send(&one, Bytes { size, sound: size }, MessageType::MsgSnap);
        let expected = Event::Database(message(MessageType::MsgSnap), Ok(content(size)));
        assert_eq!(two.next(|_| true), expected, "{size} bytes");
        assert_eq!(next_but_unreachable(&one), Event::Snapshot(MemberId(2), true));
    }
}

#[test]
fn a_truncated_snapshot_is_refused() {
    let [one, two] = cluster();
    send(&one, Bytes { size: 5 << 20, sound: 2 << 20 }, MessageType::MsgSnap);
    let event = two.next(|_| true);
    assert!(matches!(event, Event::Database(_, Err(_))), "{event:?}");
    assert_eq!(next_but_unreachable(&one), Event::Snapshot(MemberId(2), false));
}

#[test]
fn invalid_snapshot_requests_are_refused() {
    let [one, two] = cluster();
    send(&one, Bytes { size: 5 << 20, sound: 5 << 20 }, MessageType::MsgApp);
    assert_eq!(next_but_unreachable(&one), Event::Snapshot(MemberId(2), false));
    assert!(two.events.try_recv().is_err());

    let nonsense = [
        (
            &b"\0\0\0\0\x04\0\0\x01"[..],
            "failed to decode raft message (rafthttp: error limit exceeded)",
        ),
        (&b"\0\0\0\0"[..], "failed to decode raft message (unexpected EOF)"),
        (&b""[..], "failed to decode raft message (EOF)"),
        (&b"\0\0\0\0\0\0\0\x02\x08\x08"[..], "wrong raft message type"),
    ];
    for (body, text) in nonsense {
        let answer = two.request("POST /raft/snapshot", &headers(1, 2), body);
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\n"), "{answer}");
        assert!(answer.ends_with(&format!("\n\n{text}\n")), "{answer}");
    }
}

#[test]
fn a_snapshot_to_a_stopped_peer_is_reported_as_failed() {
    let [one, two] = cluster();
    let address = two.stop();
    assert!(address.port() != 0);
    send(&one, Bytes { size: 5 << 20, sound: 5 << 20 }, MessageType::MsgSnap);
    assert_eq!(next_but_unreachable(&one), Event::Snapshot(MemberId(2), false));
}

#[test]
fn a_snapshot_is_canceled_when_the_peer_is_removed() {
    let one = FixtureConfig::of(1).start();
    one.attach();
    // Accepts connections and reads nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    one.set_members(&[one.member(), member(2, &[&url])]);
    send(&one, Bytes { size: 64 << 20, sound: 64 << 20 }, MessageType::MsgSnap);
    let sending = "etcd_network_snapshot_send_inflights_total{To=\"2\"} 1";
    testkit::waiting::wait_until("the snapshot is being sent", || one.metrics().contains(sending));
    one.set_members(&[one.member()]);
    assert_eq!(next_but_unreachable(&one), Event::Snapshot(MemberId(2), false));
}
