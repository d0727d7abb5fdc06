//! Messages between members: by streams, by the pipeline, and when the other end is gone.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use bytes::Bytes;
use raft::MessageType;
use server::{ReceiveError, Transport as _};
use testkit::waiting::wait_until;
use types::{Index, MemberId};

use super::rig::{Event, Made, append, cluster, headers, heartbeat, member, read_head};
use crate::peers::REMOTES_MAX;

#[test]
fn messages_go_both_ways_in_order() {
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
    let heard: Vec<_> = (0..1100).map(|_| two.heard()).collect();
    let appended: Vec<u64> = heard
        .iter()
        .filter(|message| message.kind == MessageType::MsgApp)
        .map(|message| message.entries[0].index.0)
        .collect();
    assert_eq!(appended, (1..=1000).collect::<Vec<_>>());
    let others = heard.iter().filter(|message| message.kind == MessageType::MsgHeartbeat);
    assert!(others.map(|message| message.commit.0).eq(0..100));
    assert!((0..100).all(|round| one.heard() == heartbeat(2, 1, round)));
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
        assert_eq!(two.heard(), message);
    }
}

#[test]
fn three_members_hear_each_other() {
    let rigs: [_; 3] = cluster();
    for (from, rig) in (1..).zip(&rigs) {
        let others = (1..=3).filter(|to| *to != from);
        rig.transport.send(others.map(|to| heartbeat(from, to, 7)).collect());
    }
    for (to, rig) in (1..).zip(&rigs) {
        let mut from = [rig.heard().from.0, rig.heard().from.0];
        from.sort_unstable();
        assert!(from.into_iter().eq((1..=3).filter(|from| *from != to)));
    }
}

#[test]
fn before_there_is_a_member_nothing_is_said() {
    let (one, two) = (Made::of(1).start(), Made::of(2).start());
    let members = [one.member(), two.member()];
    one.set_members(&members);
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    assert!(one.ask("GET /members", "", b"").starts_with("HTTP/1.1 503 Service Unavailable\n"));
    two.set_members(&members);
    two.attach();
    one.attach();
    two.until_streams(1);
    two.transport.send(vec![heartbeat(2, 1, 1)]);
    assert_eq!(one.heard(), heartbeat(2, 1, 1));
}

#[test]
fn a_member_that_is_not_known_yet_is_answered() {
    let (one, two) = (Made::of(1).start(), Made::of(2).start());
    one.set_members(&[one.member(), two.member()]);
    // The second has not heard of the first.
    two.set_members(&[two.member()]);
    two.attach();
    one.attach();
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    assert_eq!(two.heard(), heartbeat(1, 2, 7));
    two.transport.send(vec![heartbeat(2, 1, 8)]);
    assert_eq!(one.heard(), heartbeat(2, 1, 8));
    // And then it has.
    two.set_members(&[one.member(), two.member()]);
    assert_eq!(two.transport.shared().peers().remotes(), 0);
    one.until_streams(2);
}

#[test]
fn strangers_are_few() {
    let [one, _two] = cluster();
    for from in 100..(100 + 2 * REMOTES_MAX as u64) {
        let named = format!("{}X-PeerURLs: http://127.0.0.1:1\r\n", headers(from, 1));
        let answer = one.ask(&format!("GET /raft/stream/message/{from:x}"), &named, b"");
        assert!(answer.ends_with("\n\nerror sender not found\n"), "{answer}");
    }
    assert_eq!(one.transport.shared().peers().remotes(), REMOTES_MAX);
    let metrics = one.metrics();
    assert!(metrics.contains("etcd_network_peer_sent_bytes_total{To=\"2\"}"), "{metrics}");
    assert!(!metrics.contains("\"64\""), "a stranger is no name: {metrics}");
}

#[test]
fn who_restarts_is_found_again() {
    let [one, two] = cluster();
    one.until_streams(2);
    two.until_streams(1);
    let members = [one.member(), two.member()];
    let address = two.stop();
    wait_until("peer 2 is inactive", || !one.is_active(2));
    one.transport.send(vec![heartbeat(1, 2, 1)]);
    one.next(|event| *event == Event::Unreachable(MemberId(2)));

    let two = Made { port: address.port(), ..Made::of(2) }.start();
    two.set_members(&members);
    two.attach();
    one.until_streams(2);
    two.until_streams(1);
    one.transport.send(vec![append(1, 2, 7, Bytes::new()), append(1, 2, 8, Bytes::new())]);
    assert_eq!((two.heard().index, two.heard().index), (Index(6), Index(7)));
    assert!(one.is_active(2));
}

#[test]
fn who_was_removed_hears_so() {
    let (one, two) = (Made::of(1).start(), Made::of(2).start());
    two.set_members(&[two.member()]);
    two.fake.removed.lock().unwrap().insert(MemberId(1));
    two.attach();
    one.set_members(&[one.member(), two.member()]);
    one.attach();
    one.next(|event| *event == Event::Removed);
    assert!(!one.is_active(2));

    *two.fake.refusal.lock().unwrap() = Some(ReceiveError::Removed);
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
}

#[test]
fn another_cluster_is_not_spoken_with() {
    let one = Made::of(1).start();
    let two = Made { cluster: membership::ClusterId(0xc2), ..Made::of(2) }.start();
    let members = [one.member(), two.member()];
    for rig in [&one, &two] {
        rig.set_members(&members);
        rig.attach();
    }
    one.transport.send(vec![heartbeat(1, 2, 7)]);
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
    assert!(!one.is_active(2) && !two.is_active(1));
    assert!(two.events.try_recv().is_err());
}

#[test]
fn members_come_go_and_move() {
    let [one, two, three] = cluster();
    one.until_streams(3);
    // One goes.
    one.set_members(&[one.member(), two.member()]);
    assert_eq!(one.transport.active_since(MemberId(3)), None);
    one.transport.send(vec![heartbeat(1, 3, 7), heartbeat(1, 2, 7)]);
    assert_eq!(two.heard(), heartbeat(1, 2, 7));
    assert!(three.events.try_recv().is_err());
    // One comes back, first at a wrong place, and then at its own.
    let nowhere = member(3, &["http://127.0.0.1:1"]);
    one.set_members(&[one.member(), two.member(), nowhere]);
    one.transport.send(vec![heartbeat(1, 3, 8)]);
    one.set_members(&[one.member(), two.member(), three.member()]);
    one.until_streams(3);
    wait_until("peer 3 is active", || one.is_active(3));
    one.transport.send(vec![heartbeat(1, 3, 9)]);
    while three.heard() != heartbeat(1, 3, 9) {}
}

#[test]
fn a_member_with_several_urls_is_found_at_the_one_that_answers() {
    let (one, two) = (Made::of(1).start(), Made::of(2).start());
    let several = member(2, &["http://127.0.0.1:1", "http://127.0.0.1:2", &two.url()]);
    one.set_members(&[one.member(), several]);
    two.set_members(&[one.member(), two.member()]);
    one.attach();
    two.attach();
    two.until_streams(1);
    two.transport.send(vec![heartbeat(2, 1, 7)]);
    assert_eq!(one.heard(), heartbeat(2, 1, 7));
}

#[test]
fn who_takes_nothing_is_reported_and_cut() {
    let one = Made { timeout: Duration::from_millis(500), ..Made::of(1) }.start();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    one.set_members(&[one.member(), member(2, &[&format!("http://127.0.0.1:{port}")])]);
    one.attach();
    // It wants to hear, and does not listen.
    let mut deaf = one.connect();
    let head = format!("GET /raft/stream/msgapp/2 HTTP/1.1\r\nHost: x\r\n{}\r\n", headers(2, 1));
    deaf.write_all(head.as_bytes()).unwrap();
    let mut deaf = BufReader::new(deaf);
    assert_eq!(read_head(&mut deaf)[0], "HTTP/1.1 200 OK");
    let data = Bytes::from(vec![7; 256 << 10]);
    for at in 1..=64 {
        one.transport.send(vec![append(1, 2, at, data.clone())]);
    }
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
    // What it could have heard ends somewhere in the middle.
    let mut rest = Vec::new();
    let _ = deaf.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

#[test]
fn more_than_can_wait_is_dropped_and_reported() {
    let one = Made::of(1).start();
    one.set_members(&[one.member(), member(2, &["http://127.0.0.1:1"])]);
    one.attach();
    let mut deaf = one.connect();
    let head = format!("GET /raft/stream/message/2 HTTP/1.1\r\nHost: x\r\n{}\r\n", headers(2, 1));
    deaf.write_all(head.as_bytes()).unwrap();
    let mut deaf = BufReader::new(deaf);
    read_head(&mut deaf);
    // In one go: nobody takes anything meanwhile, or not all of it.
    let data = Bytes::from(vec![7; 32 << 10]);
    one.transport.send((1..=10_000).map(|at| append(1, 2, at, data.clone())).collect());
    one.next(|event| *event == Event::Unreachable(MemberId(2)));
}
