//! Simulated clusters with specific faults only.

use std::pin::Pin;
use std::time::Duration;

use membership::reconfig::UnsafeReconfig;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::mvccpb;
use server::{Credentials, Error, Server, StopReason};
use sim::{Cluster, Settings, poll_once};
use types::MemberId;

/// A response in flight.
type ResponseFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

fn anonymous() -> Credentials {
    Credentials::default()
}

fn put(server: &Server, key: &str, value: &str) -> ResponseFuture<i64> {
    let (server, key, value) = (server.clone(), key.to_owned(), value.to_owned());
    Box::pin(async move {
        let put = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        server.put(&anonymous(), put).await.map(|put| put.revision)
    })
}

/// Reads a key linearizably.
fn get(server: &Server, key: &str) -> ResponseFuture<Vec<u8>> {
    let (server, key) = (server.clone(), key.to_owned());
    Box::pin(async move {
        let range = pb::RangeRequest { key: key.into(), ..Default::default() };
        let found = server.read(&anonymous(), true).await?.range(&range)?;
        let kv = found.kvs.iter().next().map(|kv| mvccpb::KeyValue::decode(kv).unwrap());
        Ok(kv.map(|kv| kv.value.to_vec()).unwrap_or_default())
    })
}

/// Runs the cluster until a request completes.
fn wait<T>(cluster: &mut Cluster, what: &str, mut response: ResponseFuture<T>) -> Result<T, Error> {
    let mut result = None;
    cluster.run_until(what, |_| {
        result = poll_once(&mut response);
        result.is_some()
    });
    result.unwrap()
}

/// Starts three members and waits until all are published.
fn start(seed: u64, change: impl Fn(&mut server::ServerConfig)) -> Cluster {
    let mut cluster = Cluster::new(Settings::new(seed), change);
    cluster.run_until("all members are published", |cluster| {
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
        let response = put(cluster.server(*id), &format!("key-{number}"), "value");
        wait(&mut cluster, "a put", response).unwrap();
    }
    for id in &ids {
        let response = get(cluster.server(*id), "key-2");
        assert_eq!(wait(&mut cluster, "a get", response).unwrap(), b"value");
    }
    cluster.run_until("all members know the cluster version", |cluster| {
        cluster.servers().all(|it| it.membership().version().is_some())
    });
}

/// Waits until all running members have applied the same entries, and compares their hashes.
fn assert_members_agree(cluster: &mut Cluster) {
    cluster.run_until("all members have applied the same entries", |cluster| {
        let mut applied: Vec<_> = cluster.servers().map(Server::applied).collect();
        applied.dedup();
        applied.len() == 1
    });
    let mut hashes: Vec<_> =
        cluster.servers().map(|it| it.state().store().hash_kv(0).unwrap()).collect();
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "{hashes:?}");
    assert_eq!(cluster.stopped, []);
}

/// The maximum number of attempts of one put.
const PUT_ATTEMPTS_MAX: usize = 100;

/// Puts keys through a member, retrying each put.
fn put_many(cluster: &mut Cluster, through: MemberId, keys: std::ops::Range<u32>) {
    for key in keys {
        // A leader change may drop a put.
        let put = |cluster: &mut Cluster| {
            let server = cluster.server(through);
            let response = put(server, &format!("key-{key}"), &format!("value-{key}"));
            wait(cluster, "one of many puts", response)
        };
        let is_put = (0..PUT_ATTEMPTS_MAX).any(|_| put(cluster).is_ok());
        assert!(is_put, "{PUT_ATTEMPTS_MAX} attempts to put key-{key} failed");
    }
}

#[test]
fn a_restarted_member_catches_up_by_log() {
    for seed in 0..10 {
        let mut cluster = start(seed, |_| {});
        let lagging = followers(&cluster)[0];
        let leader = cluster.leader().unwrap();
        let network = cluster.network.clone();
        cluster.node(lagging).lose_power(&network, seed);
        put_many(&mut cluster, leader, 0..50);
        cluster.start(lagging);
        assert_members_agree(&mut cluster);
    }
}

#[test]
fn a_member_far_behind_catches_up_by_snapshot() {
    for seed in 0..10 {
        let mut cluster = start(seed, |config| {
            config.snapshot_count = 20;
            config.snapshot_catchup_entries = 5;
        });
        let lagging = followers(&cluster)[0];
        let leader = cluster.leader().unwrap();
        let network = cluster.network.clone();
        cluster.node(lagging).kill(&network);
        put_many(&mut cluster, leader, 0..150);
        cluster.start(lagging);
        let before = cluster.server(lagging).applied();
        assert_members_agree(&mut cluster);
        assert!(cluster.server(lagging).applied().0 > before.0 + 100);
        // The snapshot survives a power cut.
        put_many(&mut cluster, lagging, 150..170);
        assert_members_agree(&mut cluster);
        let network = cluster.network.clone();
        cluster.node(lagging).lose_power(&network, seed);
        cluster.start(lagging);
        put_many(&mut cluster, leader, 170..180);
        assert_members_agree(&mut cluster);
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
    let added: ResponseFuture<_> =
        Box::pin(async move { server.member_add(&anonymous(), add).await });
    let added = wait(&mut cluster, "a learner is added", added).unwrap();
    let id = MemberId(added.member.unwrap().id);
    cluster.join(id, "d", |config| config.strict_reconfig_check = false);
    cluster.run_until("the learner has caught up", |cluster| {
        cluster.server(id).applied() == cluster.server(leader).applied()
    });
    assert!(cluster.server(id).is_learner());
    // A follower forwards the promotion to the leader, which alone knows that the learner has
    // caught up.
    let promoted = (0..100).find_map(|_| {
        let follower = cluster.server(followers(&cluster)[0]).clone();
        let promote = pb::MemberPromoteRequest { id: id.0 };
        let promoted: ResponseFuture<_> =
            Box::pin(async move { follower.member_promote(&anonymous(), promote).await });
        match wait(&mut cluster, "a promotion", promoted) {
            Err(Error::Unsafe(UnsafeReconfig::LearnerNotReady)) => None,
            promoted => Some(promoted.unwrap()),
        }
    });
    assert_eq!(promoted.unwrap().members.len(), 4);
    put_many(&mut cluster, id, 100..110);
    assert_members_agree(&mut cluster);

    let server = cluster.server(id).clone();
    let remove = pb::MemberRemoveRequest { id: leader.0 };
    let removed: ResponseFuture<_> =
        Box::pin(async move { server.member_remove(&anonymous(), remove).await });
    wait(&mut cluster, "the leader is removed", removed).unwrap();
    cluster.run_until("the removed member stops", |cluster| !cluster.stopped.is_empty());
    assert_eq!(cluster.stopped, [(leader, StopReason::Removed)]);
    cluster.stopped.clear();
    put_many(&mut cluster, id, 110..120);
    assert_members_agree(&mut cluster);
}

#[test]
fn a_stopping_leader_transfers_leadership() {
    let mut cluster = start(4, |_| {});
    let leader = cluster.leader().unwrap();
    let term = cluster.server(leader).term();
    let server = cluster.server(leader).clone();
    let resigned: ResponseFuture<_> = Box::pin(async move { server.resign().await });
    wait(&mut cluster, "another member leads", resigned).unwrap();
    assert_ne!(cluster.leader(), Some(leader));
    assert_eq!(cluster.server(leader).term(), types::Term(term.0 + 1), "no failed election");
    assert_members_agree(&mut cluster);
}

#[test]
fn leases_are_renewed_through_any_member() {
    let mut cluster = start(5, |_| {});
    let follower = followers(&cluster)[1];
    let server = cluster.server(follower).clone();
    let granted: ResponseFuture<_> = Box::pin(async move {
        let grant = pb::LeaseGrantRequest { id: 7, ttl: 100 };
        server.lease_grant(&anonymous(), grant).await?;
        let ttl = server.lease_renew(&anonymous(), 7).await?;
        let request = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
        let remaining = server.lease_time_to_live(&anonymous(), request).await?;
        let missing = server.lease_renew(&anonymous(), 8).await?;
        Ok((ttl, remaining.granted_ttl, missing))
    });
    assert_eq!(wait(&mut cluster, "a lease", granted).unwrap(), (100, 100, 0));
}

#[test]
fn force_new_cluster_keeps_the_data_of_one_member() {
    let mut cluster = start(6, |_| {});
    let leader = cluster.leader().unwrap();
    put_many(&mut cluster, leader, 0..10);
    assert_members_agree(&mut cluster);
    let network = cluster.network.clone();
    let survivor = followers(&cluster)[0];
    let all: Vec<_> = cluster.nodes.keys().copied().collect();
    all.iter().for_each(|id| cluster.node(*id).kill(&network));
    cluster.node(survivor).config.force_new_cluster = true;
    cluster.start(survivor);
    put_many(&mut cluster, survivor, 10..20);
    let response = get(cluster.server(survivor), "key-3");
    assert_eq!(wait(&mut cluster, "a get", response).unwrap(), b"value-3");
    assert_eq!(cluster.server(survivor).membership().members().count(), 1);
    // The flag is needed only once.
    cluster.node(survivor).kill(&network);
    cluster.node(survivor).config.force_new_cluster = false;
    cluster.start(survivor);
    put_many(&mut cluster, survivor, 20..30);
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
    cluster.run_until("the others elect a leader", |cluster| {
        cluster.leader().is_some_and(|now| now != leader)
    });
    let other = cluster.leader().unwrap();
    put_many(&mut cluster, other, 0..5);
    cluster.network.heal();
    assert_members_agree(&mut cluster);
}

/// The leader is connected, but cannot make its own entries durable.
#[test]
fn a_leader_with_a_hanging_disk_transfers_leadership() {
    let mut cluster = start(8, |_| {});
    let leader = cluster.leader().unwrap();
    cluster.node(leader).stall();
    cluster.run_until("another member leads", |cluster| {
        cluster.leader().is_some_and(|now| now != leader)
    });
    let other = cluster.leader().unwrap();
    put_many(&mut cluster, other, 0..5);
    cluster.node(leader).resume();
    assert_members_agree(&mut cluster);
}

/// Renewals reach the next leader only. The old one, whose clock has run on, must not revoke the
/// lease when its disk answers again. (etcd's `TestLeaseRevoke_IgnoreOldLeader` is the same with a
/// raft loop that hangs.)
#[test]
fn a_lease_outlives_a_leader_with_a_hanging_disk_while_the_next_renews_it() {
    const TTL: i64 = 20;
    let mut cluster = start(9, |_| {});
    let (leader, other) = (cluster.leader().unwrap(), followers(&cluster)[0]);
    let server = cluster.server(other).clone();
    let grant = pb::LeaseGrantRequest { id: 7, ttl: TTL };
    let granted: ResponseFuture<_> =
        Box::pin(async move { server.lease_grant(&anonymous(), grant).await });
    wait(&mut cluster, "a lease is granted", granted).unwrap();
    cluster.node(leader).stall();
    cluster.run_until("another member leads", |cluster| {
        cluster.leader().is_some_and(|now| now != leader)
    });
    for round in 0..12 {
        // The disk answers again after 30 seconds, and 30 more pass.
        if round == 6 {
            cluster.node(leader).resume();
        }
        let server = cluster.server(other).clone();
        let renewed: ResponseFuture<_> =
            Box::pin(async move { server.lease_renew(&anonymous(), 7).await });
        assert_eq!(wait(&mut cluster, "the lease is renewed", renewed).unwrap(), TTL);
        let next = cluster.now + Duration::from_secs(5);
        cluster.run_until("five seconds have passed", |cluster| cluster.now >= next);
    }
    assert_members_agree(&mut cluster);
    let server = cluster.server(leader).clone();
    let request = pb::LeaseLeasesRequest {};
    let all: ResponseFuture<_> =
        Box::pin(async move { server.lease_leases(&anonymous(), request).await });
    let all = wait(&mut cluster, "the leases are listed", all).unwrap();
    assert_eq!(all.leases, [pb::LeaseStatus { id: 7 }]);
}

/// A learner may have applied and acknowledged an entry that the only voter has not applied yet.
#[test]
fn a_sole_voter_reads_what_its_learner_has_acknowledged() {
    for seed in 0..6 {
        let settings = Settings { members: 1, ..Settings::new(seed) };
        let mut cluster = Cluster::new(settings, |_| {});
        cluster.run_until("the member is published", |it| {
            it.nodes.values().all(sim::Node::is_published)
        });
        let voter = cluster.leader().unwrap();
        let id = add_learner(&mut cluster, voter);
        for number in 0..30 {
            let value = format!("value-{number}");
            let response = put(cluster.server(id), "key", &value);
            wait(&mut cluster, "a put through the learner", response).unwrap();
            let response = get(cluster.server(voter), "key");
            let read = wait(&mut cluster, "a read at the voter", response).unwrap();
            assert_eq!(read, value.as_bytes(), "seed {seed}");
        }
    }
}

/// Adds and starts a learner.
fn add_learner(cluster: &mut Cluster, through: MemberId) -> MemberId {
    let server = cluster.server(through).clone();
    let add = pb::MemberAddRequest { peer_urls: vec!["http://n:2380".into()], is_learner: true };
    let added: ResponseFuture<_> =
        Box::pin(async move { server.member_add(&anonymous(), add).await });
    let added = wait(cluster, "a learner is added", added).unwrap();
    let id = MemberId(added.member.unwrap().id);
    cluster.join(id, "n", |_| {});
    cluster.run_until("the learner is published", |it| it.nodes[&id].is_published());
    id
}

/// The remaining member needs no other vote, whether it led or not, also after a restart.
#[test]
fn one_of_two_members_is_removed_and_the_other_serves() {
    for seed in 0..8 {
        let settings = Settings { members: 2, ..Settings::new(seed) };
        let mut cluster = Cluster::new(settings, |config| config.strict_reconfig_check = false);
        cluster.run_until("both members are published", |it| {
            it.nodes.values().all(sim::Node::is_published)
        });
        let (leader, other) = (cluster.leader().unwrap(), followers(&cluster)[0]);
        let (removed_id, remaining) = if seed % 2 == 0 { (leader, other) } else { (other, leader) };
        put_many(&mut cluster, removed_id, 0..10);
        assert_members_agree(&mut cluster);
        let server = cluster.server(remaining).clone();
        let remove = pb::MemberRemoveRequest { id: removed_id.0 };
        let removed: ResponseFuture<_> =
            Box::pin(async move { server.member_remove(&anonymous(), remove).await });
        wait(&mut cluster, "one of two is removed", removed).unwrap();
        cluster.run_until("the removed member stops", |cluster| !cluster.stopped.is_empty());
        assert_eq!(cluster.stopped, [(removed_id, StopReason::Removed)]);
        cluster.stopped.clear();
        put_many(&mut cluster, remaining, 10..20);
        let network = cluster.network.clone();
        cluster.node(remaining).lose_power(&network, seed);
        cluster.start(remaining);
        put_many(&mut cluster, remaining, 20..30);
        let members = cluster.server(remaining).membership();
        assert_eq!(members.ids().collect::<Vec<_>>(), [remaining]);
        let response = get(cluster.server(remaining), "key-7");
        assert_eq!(wait(&mut cluster, "a get", response).unwrap(), b"value-7");
    }
}
