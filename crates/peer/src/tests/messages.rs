//! Messages between members: over streams, through the pipeline, and to removed peers.

use std::io::{BufReader, Read as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use raft::MessageType;
use server::{ReceiveError, Transport as _};
use testkit::ports::ReservedPort;
use testkit::waiting::wait_until;
use types::{Index, MemberId};

use super::fixture::{
    Event, FixtureConfig, append, cluster, headers, heartbeat, member, read_head,
};
use crate::peers::REMOTES_MAX;

#[test]
fn messages_arrive_in_order_in_both_directions() {
    let [one, two] = cluster();
    one.until_streams(2);
    two.until_streams(1);
    for round in 0..100 {
        let indexes = (10 * round + 1)..=(10 * round + 10);
        one.transport
            .send(indexes.map(|at| append(1, 2, at, Bytes::from_static(b"put"))).collect());
        one.transport.send(vec![heartbeat(1, 2, round)]);
        two.transport.send(vec![heartbeat(2, 1, round)]);
    }
    let received: Vec<_> = (0..1100).map(|_| two.received()).collect();
    let appended: Vec<u64> = received
        .iter()
        .filter(|message| message.kind == MessageType::MsgApp)
        .map(|message| message.entries[0].index.0)
        .collect();
    assert_eq!(appended, (1..=1000).collect::<Vec<_>>());
    let others = received.iter().filter(|message| message.kind == MessageType::MsgHeartbeat);
    assert!(others.map(|message| message.commit.0).eq(0..100));
    assert!((0..100).all(|round| one.received() == heartbeat(2, 1, round)));
    assert!(one.is_active(2) && two.is_active(1));
    assert_eq!(one.transport.active_peers(), 1);
}

#[test]
fn a_large_message_arrives() {
    let [one, two] = cluster();
    one.until_streams(2);
    let data = Bytes::from(vec![7; 5 << 20]);
    let messages: Vec<_> = (1..=3).map(|at| append(1, 2, at, data.clone())).collect();
    one.transport.send(messages.clone());
    for message in messages {
        assert_eq!(two.received(), message);
    }
}

#[test]
fn three_members_exchange_messages() {
    let fixtures: [_; 3] = cluster();
    for (from, fixture) in (1..).zip(&fixtures) {
        let others = (1..=3).filter(|to| *to != from);
        fixture.transport.send(others.map(|to| heartbeat(from, to, 7)).collect());
    }
    for (to, fixture) in (1..).zip(&fixtures) {
        let mut from = [fixture.received().from.0, fixture.received().from.0];
        from.sort_unstable();
        assert!(from.into_iter().eq((1..=3).filter(|from| *from != to)));
    }
}

#[test]
fn nothing_is_sent_before_a_member_is_attached() {
    let (one, two) = (FixtureConfig::of(1).start(), FixtureConfig::of(2).start());
    let members = [one.member(), two.member()];
    one.set_members(&members);
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    assert!(one.request("GET /members", "", b"").starts_with("HTTP/1.1 503 Service Unavailable\n"));
    two.set_members(&members);
    two.attach();
    one.attach();
    two.until_streams(1);
    two.transport.send(vec![heartbeat(2, 1, 1)]);
    assert_eq!(one.received(), heartbeat(2, 1, 1));
}

#[test]
fn unknown_senders_are_answered_as_remotes() {
    let (one, two) = (FixtureConfig::of(1).start(), FixtureConfig::of(2).start());
    one.set_members(&[one.member(), two.member()]);
    // The second does not know the first yet.
    two.set_members(&[two.member()]);
    two.attach();
    one.attach();
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    assert_eq!(two.received(), heartbeat(1, 2, 7));
    two.transport.send(vec![heartbeat(2, 1, 8)]);
    assert_eq!(one.received(), heartbeat(2, 1, 8));
    // Now it does.
    two.set_members(&[one.member(), two.member()]);
    assert_eq!(two.transport.shared().peers().remotes(), 0);
    one.until_streams(2);
}

#[test]
fn the_number_of_remotes_is_bounded() {
    let [one, _two] = cluster();
    for from in 100..(100 + 2 * REMOTES_MAX as u64) {
        let named = format!("{}X-PeerURLs: http://127.0.0.1:1\r\n", headers(from, 1));
        let answer = one.request(&format!("GET /raft/stream/message/{from:x}"), &named, b"");
        assert!(answer.ends_with("\n\nerror sender not found\n"), "{answer}");
    }
    assert_eq!(one.transport.shared().peers().remotes(), REMOTES_MAX);
    let metrics = one.metrics();
    assert!(metrics.contains("etcd_network_peer_sent_bytes_total{To=\"2\"}"), "{metrics}");
    assert!(!metrics.contains("\"64\""), "a claimed id is no label: {metrics}");
}

#[test]
fn streams_reconnect_after_a_restart() {
    // Outgoing connections of other tests do not use a reserved port while it is free.
    let reserved = ReservedPort::new();
    let at_port = || FixtureConfig { port: reserved.number(), ..FixtureConfig::of(2) }.start();
    let (one, two) = (FixtureConfig::of(1).start(), at_port());
    let members = [one.member(), two.member()];
    for fixture in [&one, &two] {
        fixture.set_members(&members);
        fixture.attach();
    }
    one.until_streams(2);
    two.until_streams(1);
    two.stop();
    wait_until("peer 2 is inactive", || !one.is_active(2));
    // A message into a stream that has not noticed yet would be lost, and not reported.
    wait_until("the streams to peer 2 have ended", || !one.has_streams(2));
    one.transport.send(vec![heartbeat(1, 2, 1)]);
    one.next(|event| *event == Event::Unreachable(MemberId(2)));

    let two = at_port();
    two.set_members(&members);
    two.attach();
    one.until_streams(2);
    two.until_streams(1);
    one.transport.send(vec![append(1, 2, 7, Bytes::new()), append(1, 2, 8, Bytes::new())]);
    assert_eq!((two.received().index, two.received().index), (Index(6), Index(7)));
    assert!(one.is_active(2));
}

#[test]
fn a_removed_member_is_notified_of_its_removal() {
    let (one, two) = (FixtureConfig::of(1).start(), FixtureConfig::of(2).start());
    two.set_members(&[two.member()]);
    two.fake.removed.lock().insert(MemberId(1));
    two.attach();
    one.set_members(&[one.member(), two.member()]);
    one.attach();
    one.next(|event| *event == Event::Removed);
    assert!(!one.is_active(2));

    *two.fake.refusal.lock() = Some(ReceiveError::Removed);
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
}

#[test]
fn members_of_another_cluster_are_refused() {
    let one = FixtureConfig::of(1).start();
    let two =
        FixtureConfig { cluster: membership::ClusterId(0xc2), ..FixtureConfig::of(2) }.start();
    let members = [one.member(), two.member()];
    for fixture in [&one, &two] {
        fixture.set_members(&members);
        fixture.attach();
    }
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
    assert!(!one.is_active(2) && !two.is_active(1));
    assert!(two.events.try_recv().is_err());
}

#[test]
fn peers_are_added_removed_and_updated() {
    let [one, two, three] = cluster();
    one.until_streams(3);
    // A member is removed.
    one.set_members(&[one.member(), two.member()]);
    assert_eq!(one.transport.active_since(MemberId(3)), None);
    one.transport.send(vec![heartbeat(1, 3, 7), heartbeat(1, 2, 7)]);
    assert_eq!(two.received(), heartbeat(1, 2, 7));
    assert!(three.events.try_recv().is_err());
    // It returns, first with a wrong URL and then with its own.
    let nowhere = member(3, &["http://127.0.0.1:1"]);
    one.set_members(&[one.member(), two.member(), nowhere]);
    one.transport.send(vec![heartbeat(1, 3, 8)]);
    one.set_members(&[one.member(), two.member(), three.member()]);
    one.until_streams(3);
    wait_until("peer 3 is active", || one.is_active(3));
    one.transport.send(vec![heartbeat(1, 3, 9)]);
    three.next(|event| *event == Event::Received(heartbeat(1, 3, 9)));
}

#[test]
fn the_url_that_answers_is_used() {
    let (one, two) = (FixtureConfig::of(1).start(), FixtureConfig::of(2).start());
    let several = member(2, &["http://127.0.0.1:1", "http://127.0.0.1:2", &two.url()]);
    one.set_members(&[one.member(), several]);
    two.set_members(&[one.member(), two.member()]);
    one.attach();
    two.attach();
    two.until_streams(1);
    two.transport.send(vec![heartbeat(2, 1, 7)]);
    assert_eq!(one.received(), heartbeat(2, 1, 7));
}

#[test]
fn a_peer_that_does_not_read_is_reported_and_cut() {
    let one = FixtureConfig { timeout: Duration::from_millis(500), ..FixtureConfig::of(1) }.start();
    let port = ReservedPort::new();
    one.set_members(&[one.member(), member(2, &[&format!("http://{}", port.address())])]);
    one.attach();
    // It requests a stream and does not read.
    let mut silent = one.connect();
    let head = format!("GET /raft/stream/msgapp/2 HTTP/1.1\r\nHost: x\r\n{}\r\n", headers(2, 1));
    silent.write_all(head.as_bytes()).unwrap();
    let mut silent = BufReader::new(silent);
    assert_eq!(read_head(&mut silent)[0], "HTTP/1.1 200 OK");
    let data = Bytes::from(vec![7; 256 << 10]);
    for at in 1..=64 {
        one.transport.send(vec![append(1, 2, at, data.clone())]);
    }
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
    // The stream ends within a message.
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

#[test]
fn messages_beyond_the_queue_are_dropped_and_reported() {
    let one = FixtureConfig::of(1).start();
    one.set_members(&[one.member(), member(2, &["http://127.0.0.1:1"])]);
    one.attach();
    let mut silent = one.connect();
    let head = format!("GET /raft/stream/message/2 HTTP/1.1\r\nHost: x\r\n{}\r\n", headers(2, 1));
    silent.write_all(head.as_bytes()).unwrap();
    let mut silent = BufReader::new(silent);
    read_head(&mut silent);
    // In one call, so that the writer takes little meanwhile.
    let data = Bytes::from(vec![7; 32 << 10]);
    one.transport.send((1..=10_000).map(|at| append(1, 2, at, data.clone())).collect());
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
}
