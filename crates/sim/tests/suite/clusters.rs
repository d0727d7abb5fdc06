//! Simulated clusters with specific faults only.

use std::pin::Pin;

use membership::reconfig::UnsafeReconfig;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::mvccpb;
use server::{Credentials, Error, Server, StopReason};
use sim::{Cluster, Settings, poll};
use types::MemberId;

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

fn anonymous() -> Credentials {
    Credentials::default()
}

fn put(server: &Server, key: &str, value: &str) -> Answer<i64> {
    let (server, key, value) = (server.clone(), key.to_owned(), value.to_owned());
    Box::pin(async move {
        let put = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        server.put(&anonymous(), put).await.map(|put| put.revision)
    })
}

/// Reads a key linearizably.
fn get(server: &Server, key: &str) -> Answer<Vec<u8>> {
    let (server, key) = (server.clone(), key.to_owned());
    Box::pin(async move {
        let range = pb::RangeRequest { key: key.into(), ..Default::default() };
        let found = server.read(&anonymous(), true).await?.range(&range)?;
        let kv = found.kvs.iter().next().map(|kv| mvccpb::KeyValue::decode(kv).unwrap());
        Ok(kv.map(|kv| kv.value.to_vec()).unwrap_or_default())
    })
}

/// Runs the cluster until a request completes.
fn wait<T>(cluster: &mut Cluster, what: &str, mut answer: Answer<T>) -> Result<T, Error> {
    let mut got = None;
    cluster.until(what, |_| {
        got = poll(&mut answer);
        got.is_some()
    });
    got.unwrap()
}

fn start(seed: u64, change: impl Fn(&mut server::ServerConfig)) -> Cluster {
    let mut cluster = Cluster::new(Settings::new(seed), change);
    cluster.until("all members are published", |cluster| {
        cluster.nodes.values().all(sim::Node::is_published)
    });
    cluster
}

fn followers(cluster: &Cluster) -> Vec<MemberId> {
    let leader = cluster.leader();
    cluster.nodes.keys().copied().filter(|id| Some(*id) != leader).collect()
}

#[test]
fn three_members_elect_a_leader_and_serve() {
    let mut cluster = start(1, |_| {});
    let ids: Vec<_> = cluster.nodes.keys().copied().collect();
    for (number, id) in ids.iter().enumerate() {
        let answer = put(cluster.server(*id), &format!("key-{number}"), "value");
        wait(&mut cluster, "a put", answer).unwrap();
    }
    for id in &ids {
        let answer = get(cluster.server(*id), "key-2");
        assert_eq!(wait(&mut cluster, "a get", answer).unwrap(), b"value");
    }
    cluster.until("all members know the cluster version", |cluster| {
        cluster.servers().all(|it| it.state().cluster.now().version().is_some())
    });
}

/// Waits until all running members have applied the same entries, and compares their hashes.
fn agree(cluster: &mut Cluster) {
    cluster.until("all members have applied the same entries", |cluster| {
        let mut applied: Vec<_> = cluster.servers().map(Server::applied).collect();
        applied.dedup();
        applied.len() == 1
    });
    let mut hashes: Vec<_> =
        cluster.servers().map(|it| it.state().store.hash_kv(0).unwrap()).collect();
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "{hashes:?}");
    assert_eq!(cluster.ended, []);
}

fn put_many(cluster: &mut Cluster, through: MemberId, keys: std::ops::Range<u32>) {
    for key in keys {
        // A put is retried, since a leader change may lose it.
        let put = |cluster: &mut Cluster| {
            let server = cluster.server(through);
            let answer = put(server, &format!("key-{key}"), &format!("value-{key}"));
            wait(cluster, "one of many puts", answer)
        };
        while put(cluster).is_err() {}
    }
}

#[test]
fn a_restarted_member_catches_up_by_log() {
    for seed in 0..10 {
        let mut cluster = start(seed, |_| {});
        let away = followers(&cluster)[0];
        let leader = cluster.leader().unwrap();
        let network = cluster.network.clone();
        cluster.node(away).lose_power(&network, seed);
        put_many(&mut cluster, leader, 0..50);
        cluster.start(away);
        agree(&mut cluster);
    }
}

#[test]
fn a_member_far_behind_catches_up_by_snapshot() {
    for seed in 0..10 {
        let mut cluster = start(seed, |config| {
            config.snapshot_count = 20;
            config.snapshot_catchup_entries = 5;
        });
        let away = followers(&cluster)[0];
        let leader = cluster.leader().unwrap();
        let network = cluster.network.clone();
        cluster.node(away).kill(&network);
        put_many(&mut cluster, leader, 0..150);
        cluster.start(away);
        let before = cluster.server(away).applied();
        agree(&mut cluster);
        assert!(cluster.server(away).applied().0 > before.0 + 100);
        // The snapshot survives a power cut.
        put_many(&mut cluster, away, 150..170);
        agree(&mut cluster);
        let network = cluster.network.clone();
        cluster.node(away).lose_power(&network, seed);
        cluster.start(away);
        put_many(&mut cluster, leader, 170..180);
        agree(&mut cluster);
    }
}

#[test]
fn a_learner_is_promoted_and_a_leader_removed() {
    let mut cluster = start(3, |config| {
        config.snapshot_count = 20;
        config.snapshot_catchup_entries = 5;
        config.strict_reconfig_check = false;
    });
    let leader = cluster.leader().unwrap();
    put_many(&mut cluster, leader, 0..100);
    let server = cluster.server(leader).clone();
    let add = pb::MemberAddRequest { peer_urls: vec!["http://d:2380".into()], is_learner: true };
    let added: Answer<_> = Box::pin(async move { server.member_add(&anonymous(), add).await });
    let added = wait(&mut cluster, "a learner is added", added).unwrap();
    let id = MemberId(added.member.unwrap().id);
    cluster.join(id, "d", |config| config.strict_reconfig_check = false);
    cluster.until("the learner has caught up", |cluster| {
        cluster.server(id).applied() == cluster.server(leader).applied()
    });
    assert!(cluster.server(id).is_learner());
    // Through a follower: only the leader knows that the learner has caught up.
    let promoted = (0..100).find_map(|_| {
        let asked = cluster.server(followers(&cluster)[0]).clone();
        let promote = pb::MemberPromoteRequest { id: id.0 };
        let promoted: Answer<_> =
            Box::pin(async move { asked.member_promote(&anonymous(), promote).await });
        match wait(&mut cluster, "a promotion", promoted) {
            Err(Error::Unsafe(UnsafeReconfig::LearnerNotReady)) => None,
            promoted => Some(promoted.unwrap()),
        }
    });
    assert_eq!(promoted.unwrap().members.len(), 4);
    put_many(&mut cluster, id, 100..110);
    agree(&mut cluster);

    let server = cluster.server(id).clone();
    let remove = pb::MemberRemoveRequest { id: leader.0 };
    let removed: Answer<_> =
        Box::pin(async move { server.member_remove(&anonymous(), remove).await });
    wait(&mut cluster, "the leader is removed", removed).unwrap();
    cluster.until("the removed member stops", |cluster| !cluster.ended.is_empty());
    assert_eq!(cluster.ended, [(leader, StopReason::Removed)]);
    cluster.ended.clear();
    put_many(&mut cluster, id, 110..120);
    agree(&mut cluster);
}

#[test]
fn a_stopping_leader_transfers_leadership() {
    let mut cluster = start(4, |_| {});
    let leader = cluster.leader().unwrap();
    let term = cluster.server(leader).term();
    let server = cluster.server(leader).clone();
    let resigned: Answer<_> = Box::pin(async move { server.resign().await });
    wait(&mut cluster, "another member leads", resigned).unwrap();
    assert_ne!(cluster.leader(), Some(leader));
    assert_eq!(cluster.server(leader).term(), types::Term(term.0 + 1), "no failed election");
    agree(&mut cluster);
}

#[test]
fn leases_are_renewed_through_any_member() {
    let mut cluster = start(5, |_| {});
    let follower = followers(&cluster)[1];
    let server = cluster.server(follower).clone();
    let granted: Answer<_> = Box::pin(async move {
        let grant = pb::LeaseGrantRequest { id: 7, ttl: 100 };
        server.lease_grant(&anonymous(), grant).await?;
        let ttl = server.lease_renew(&anonymous(), 7).await?;
        let ask = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
        let left = server.lease_time_to_live(&anonymous(), ask).await?;
        let none = server.lease_renew(&anonymous(), 8).await?;
        Ok((ttl, left.granted_ttl, none))
    });
    assert_eq!(wait(&mut cluster, "a lease", granted).unwrap(), (100, 100, 0));
}

#[test]
fn force_new_cluster_keeps_the_data_of_one_member() {
    let mut cluster = start(6, |_| {});
    let leader = cluster.leader().unwrap();
    put_many(&mut cluster, leader, 0..10);
    agree(&mut cluster);
    let network = cluster.network.clone();
    let left = followers(&cluster)[0];
    let all: Vec<_> = cluster.nodes.keys().copied().collect();
    all.iter().for_each(|id| cluster.node(*id).kill(&network));
    cluster.node(left).config.force_new_cluster = true;
    cluster.start(left);
    put_many(&mut cluster, left, 10..20);
    let answer = get(cluster.server(left), "key-3");
    assert_eq!(wait(&mut cluster, "a get", answer).unwrap(), b"value-3");
    assert_eq!(cluster.server(left).state().cluster.now().members().count(), 1);
    // The flag is needed only once.
    cluster.node(left).kill(&network);
    cluster.node(left).config.force_new_cluster = false;
    cluster.start(left);
    put_many(&mut cluster, left, 20..30);
}

#[test]
fn reads_and_writes_fail_without_a_quorum() {
    let mut cluster = start(7, |_| {});
    let leader = cluster.leader().unwrap();
    for other in followers(&cluster) {
        cluster.network.cut(leader, other);
        cluster.network.cut(other, leader);
    }
    let (read, write) = (get(cluster.server(leader), "a"), put(cluster.server(leader), "a", "1"));
    assert!(wait(&mut cluster, "a read fails", read).is_err());
    assert!(wait(&mut cluster, "a write fails", write).is_err());
    cluster.until("the others elect a leader", |cluster| {
        cluster.leader().is_some_and(|now| now != leader)
    });
    let other = cluster.leader().unwrap();
    put_many(&mut cluster, other, 0..5);
    cluster.network.heal();
    agree(&mut cluster);
}

/// The leader is connected, but cannot make its own entries durable.
#[test]
fn a_leader_with_a_hanging_disk_transfers_leadership() {
    let mut cluster = start(8, |_| {});
    let leader = cluster.leader().unwrap();
    cluster.node(leader).stall();
    cluster
        .until("another member leads", |cluster| cluster.leader().is_some_and(|now| now != leader));
    let other = cluster.leader().unwrap();
    put_many(&mut cluster, other, 0..5);
    cluster.node(leader).resume();
    agree(&mut cluster);
}

/// A learner may have applied and acknowledged an entry that the only voter has not applied yet.
#[test]
fn a_sole_voter_reads_what_its_learner_has_acknowledged() {
    for seed in 0..6 {
        let settings = Settings { members: 1, ..Settings::new(seed) };
        let mut cluster = Cluster::new(settings, |_| {});
        cluster
            .until("the member is published", |it| it.nodes.values().all(sim::Node::is_published));
        let voter = cluster.leader().unwrap();
        let id = add_learner(&mut cluster, voter);
        for number in 0..30 {
            let value = format!("value-{number}");
            let answer = put(cluster.server(id), "key", &value);
            wait(&mut cluster, "a put through the learner", answer).unwrap();
            let answer = get(cluster.server(voter), "key");
            let read = wait(&mut cluster, "a read at the voter", answer).unwrap();
            assert_eq!(read, value.as_bytes(), "seed {seed}");
        }
    }
}

/// Adds and starts a learner.
fn add_learner(cluster: &mut Cluster, through: MemberId) -> MemberId {
    let server = cluster.server(through).clone();
    let add = pb::MemberAddRequest { peer_urls: vec!["http://n:2380".into()], is_learner: true };
    let added: Answer<_> = Box::pin(async move { server.member_add(&anonymous(), add).await });
    let added = wait(cluster, "a learner is added", added).unwrap();
    let id = MemberId(added.member.unwrap().id);
    cluster.join(id, "n", |_| {});
    cluster.until("the learner is published", |it| it.nodes[&id].is_published());
    id
}

/// The remaining member needs no other vote, whether it led or not, also after a restart.
#[test]
fn one_of_two_members_is_removed_and_the_other_serves() {
    for seed in 0..8 {
        let settings = Settings { members: 2, ..Settings::new(seed) };
        let mut cluster = Cluster::new(settings, |config| config.strict_reconfig_check = false);
        cluster.until("both members are published", |it| {
            it.nodes.values().all(sim::Node::is_published)
        });
        let (leader, other) = (cluster.leader().unwrap(), followers(&cluster)[0]);
        let (goes, stays) = if seed % 2 == 0 { (leader, other) } else { (other, leader) };
        put_many(&mut cluster, goes, 0..10);
        agree(&mut cluster);
        let server = cluster.server(stays).clone();
        let remove = pb::MemberRemoveRequest { id: goes.0 };
        let removed: Answer<_> =
            Box::pin(async move { server.member_remove(&anonymous(), remove).await });
        wait(&mut cluster, "one of two is removed", removed).unwrap();
        cluster.until("the removed member stops", |cluster| !cluster.ended.is_empty());
        assert_eq!(cluster.ended, [(goes, StopReason::Removed)]);
        cluster.ended.clear();
        put_many(&mut cluster, stays, 10..20);
        let network = cluster.network.clone();
        cluster.node(stays).lose_power(&network, seed);
        cluster.start(stays);
        put_many(&mut cluster, stays, 20..30);
        let members = cluster.server(stays).state().cluster.now();
        assert_eq!(members.ids().collect::<Vec<_>>(), [stays]);
        let answer = get(cluster.server(stays), "key-7");
        assert_eq!(wait(&mut cluster, "a get", answer).unwrap(), b"value-7");
    }
}
