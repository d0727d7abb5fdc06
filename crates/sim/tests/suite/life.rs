//! The life of a cluster, with nothing going wrong that is not meant to.

use std::pin::Pin;

use membership::reconfig::UnsafeReconfig;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::mvccpb;
use server::{Credentials, Error, Server, StopReason};
use sim::{Cluster, Settings, poll};
use types::MemberId;

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

fn nobody() -> Credentials {
    Credentials::default()
}

fn put(server: &Server, key: &str, value: &str) -> Answer<i64> {
    let (server, key, value) = (server.clone(), key.to_owned(), value.to_owned());
    Box::pin(async move {
        let put = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        server.put(&nobody(), put).await.map(|put| put.revision)
    })
}

/// What a key has, as a member knows it for sure.
fn get(server: &Server, key: &str) -> Answer<Vec<u8>> {
    let (server, key) = (server.clone(), key.to_owned());
    Box::pin(async move {
        let range = pb::RangeRequest { key: key.into(), ..Default::default() };
        let found = server.read(&nobody(), true).await?.range(&range)?;
        let kv = found.kvs.iter().next().map(|kv| mvccpb::KeyValue::decode(kv).unwrap());
        Ok(kv.map(|kv| kv.value.to_vec()).unwrap_or_default())
    })
}

/// Goes on until there is an answer.
fn wait<T>(cluster: &mut Cluster, what: &str, mut answer: Answer<T>) -> Result<T, Error> {
    let mut got = None;
    cluster.until(what, |_| {
        got = poll(&mut answer);
        got.is_some()
    });
    got.unwrap()
}

fn begun(seed: u64, change: impl Fn(&mut server::ServerConfig)) -> Cluster {
    let mut cluster = Cluster::new(Settings::new(seed), change);
    cluster
        .until("all are published", |cluster| cluster.sites.values().all(sim::Site::is_published));
    cluster
}

fn followers(cluster: &Cluster) -> Vec<MemberId> {
    let leader = cluster.leader();
    cluster.sites.keys().copied().filter(|id| Some(*id) != leader).collect()
}

#[test]
fn three_members_elect_one_and_all_serve() {
    let mut cluster = begun(1, |_| {});
    let ids: Vec<_> = cluster.sites.keys().copied().collect();
    for (number, id) in ids.iter().enumerate() {
        let answer = put(cluster.server(*id), &format!("key-{number}"), "value");
        wait(&mut cluster, "a put", answer).unwrap();
    }
    for id in &ids {
        let answer = get(cluster.server(*id), "key-2");
        assert_eq!(wait(&mut cluster, "a get", answer).unwrap(), b"value");
    }
    cluster.until("all decide on a version", |cluster| {
        cluster.servers().all(|it| it.state().cluster.now().version().is_some())
    });
}

/// All members that run have applied the same, and hold the same.
fn agree(cluster: &mut Cluster) {
    cluster.until("all have applied the same", |cluster| {
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
        // If the leader changes meanwhile, it may be lost.
        let put = |cluster: &mut Cluster| {
            let server = cluster.server(through);
            let answer = put(server, &format!("key-{key}"), &format!("value-{key}"));
            wait(cluster, "one of many puts", answer)
        };
        while put(cluster).is_err() {}
    }
}

#[test]
fn a_member_that_was_away_catches_up_by_the_log() {
    for seed in 0..10 {
        let mut cluster = begun(seed, |_| {});
        let away = followers(&cluster)[0];
        let leader = cluster.leader().unwrap();
        let network = cluster.network.clone();
        cluster.site(away).lose_power(&network, seed);
        put_many(&mut cluster, leader, 0..50);
        cluster.start(away);
        agree(&mut cluster);
    }
}

#[test]
fn one_that_was_away_for_long_catches_up_by_a_snapshot() {
    for seed in 0..10 {
        let mut cluster = begun(seed, |config| {
            config.snapshot_count = 20;
            config.snapshot_catchup_entries = 5;
        });
        let away = followers(&cluster)[0];
        let leader = cluster.leader().unwrap();
        let network = cluster.network.clone();
        cluster.site(away).kill(&network);
        put_many(&mut cluster, leader, 0..150);
        cluster.start(away);
        let before = cluster.server(away).applied();
        agree(&mut cluster);
        assert!(cluster.server(away).applied().0 > before.0 + 100);
        // It goes on with what it got, and finds it again.
        put_many(&mut cluster, away, 150..170);
        agree(&mut cluster);
        let network = cluster.network.clone();
        cluster.site(away).lose_power(&network, seed);
        cluster.start(away);
        put_many(&mut cluster, leader, 170..180);
        agree(&mut cluster);
    }
}

#[test]
fn members_come_as_learners_are_promoted_and_go() {
    let mut cluster = begun(3, |config| {
        config.snapshot_count = 20;
        config.snapshot_catchup_entries = 5;
        config.strict_reconfig_check = false;
    });
    let leader = cluster.leader().unwrap();
    put_many(&mut cluster, leader, 0..100);
    let server = cluster.server(leader).clone();
    let add = pb::MemberAddRequest { peer_urls: vec!["http://d:2380".into()], is_learner: true };
    let added: Answer<_> = Box::pin(async move { server.member_add(&nobody(), add).await });
    let added = wait(&mut cluster, "a learner is added", added).unwrap();
    let id = MemberId(added.member.unwrap().id);
    cluster.join(id, "d", |config| config.strict_reconfig_check = false);
    cluster.until("the learner has caught up", |cluster| {
        cluster.server(id).applied() == cluster.server(leader).applied()
    });
    assert!(cluster.server(id).is_learner());
    // Through a follower: only the leader can tell that it is ready, once it has heard so.
    let promoted = (0..100).find_map(|_| {
        let asked = cluster.server(followers(&cluster)[0]).clone();
        let promote = pb::MemberPromoteRequest { id: id.0 };
        let promoted: Answer<_> =
            Box::pin(async move { asked.member_promote(&nobody(), promote).await });
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
    let removed: Answer<_> = Box::pin(async move { server.member_remove(&nobody(), remove).await });
    wait(&mut cluster, "the leader is removed", removed).unwrap();
    cluster.until("it ends", |cluster| !cluster.ended.is_empty());
    assert_eq!(cluster.ended, [(leader, StopReason::Removed)]);
    cluster.ended.clear();
    put_many(&mut cluster, id, 110..120);
    agree(&mut cluster);
}

#[test]
fn a_leader_that_stops_hands_leadership_on() {
    let mut cluster = begun(4, |_| {});
    let leader = cluster.leader().unwrap();
    let term = cluster.server(leader).term();
    let server = cluster.server(leader).clone();
    let resigned: Answer<_> = Box::pin(async move { server.resign().await });
    wait(&mut cluster, "another leads", resigned).unwrap();
    assert_ne!(cluster.leader(), Some(leader));
    assert_eq!(
        cluster.server(leader).term(),
        types::Term(term.0 + 1),
        "without an election in vain"
    );
    agree(&mut cluster);
}

#[test]
fn leases_are_renewed_through_any_member() {
    let mut cluster = begun(5, |_| {});
    let follower = followers(&cluster)[1];
    let server = cluster.server(follower).clone();
    let granted: Answer<_> = Box::pin(async move {
        let grant = pb::LeaseGrantRequest { id: 7, ttl: 100 };
        server.lease_grant(&nobody(), grant).await?;
        let ttl = server.lease_renew(&nobody(), 7).await?;
        let ask = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
        let left = server.lease_time_to_live(&nobody(), ask).await?;
        let none = server.lease_renew(&nobody(), 8).await?;
        Ok((ttl, left.granted_ttl, none))
    });
    assert_eq!(wait(&mut cluster, "a lease", granted).unwrap(), (100, 100, 0));
}

#[test]
fn whoever_is_left_goes_on_alone_if_forced_to() {
    let mut cluster = begun(6, |_| {});
    let leader = cluster.leader().unwrap();
    put_many(&mut cluster, leader, 0..10);
    agree(&mut cluster);
    let network = cluster.network.clone();
    let left = followers(&cluster)[0];
    let all: Vec<_> = cluster.sites.keys().copied().collect();
    all.iter().for_each(|id| cluster.site(*id).kill(&network));
    cluster.site(left).config.force_new_cluster = true;
    cluster.start(left);
    put_many(&mut cluster, left, 10..20);
    let answer = get(cluster.server(left), "key-3");
    assert_eq!(wait(&mut cluster, "a get", answer).unwrap(), b"value-3");
    assert_eq!(cluster.server(left).state().cluster.now().members().count(), 1);
    // Once is enough.
    cluster.site(left).kill(&network);
    cluster.site(left).config.force_new_cluster = false;
    cluster.start(left);
    put_many(&mut cluster, left, 20..30);
}

#[test]
fn without_a_quorum_nothing_is_read_or_written() {
    let mut cluster = begun(7, |_| {});
    let leader = cluster.leader().unwrap();
    for other in followers(&cluster) {
        cluster.network.cut(leader, other);
        cluster.network.cut(other, leader);
    }
    let (read, write) = (get(cluster.server(leader), "a"), put(cluster.server(leader), "a", "1"));
    assert!(wait(&mut cluster, "a read fails", read).is_err());
    assert!(wait(&mut cluster, "a write fails", write).is_err());
    cluster
        .until("the others elect one", |cluster| cluster.leader().is_some_and(|now| now != leader));
    let other = cluster.leader().unwrap();
    put_many(&mut cluster, other, 0..5);
    cluster.network.heal();
    agree(&mut cluster);
}

/// Other members hear from it and it from them, but nothing that is proposed to it gets on without both of them.
#[test]
fn a_leader_whose_disk_does_not_answer_hands_leadership_on() {
    let mut cluster = begun(8, |_| {});
    let leader = cluster.leader().unwrap();
    cluster.site(leader).stall();
    cluster.until("another leads", |cluster| cluster.leader().is_some_and(|now| now != leader));
    let other = cluster.leader().unwrap();
    put_many(&mut cluster, other, 0..5);
    cluster.site(leader).resume();
    agree(&mut cluster);
}

/// A learner may have applied, and told somebody, what the only voter has committed and not applied yet.
#[test]
fn a_sole_voter_reads_what_its_learner_has_acknowledged() {
    for seed in 0..6 {
        let settings = Settings { members: 1, ..Settings::new(seed) };
        let mut cluster = Cluster::new(settings, |_| {});
        cluster.until("it is published", |it| it.sites.values().all(sim::Site::is_published));
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

/// Adds a learner, and starts it.
fn add_learner(cluster: &mut Cluster, through: MemberId) -> MemberId {
    let server = cluster.server(through).clone();
    let add = pb::MemberAddRequest { peer_urls: vec!["http://n:2380".into()], is_learner: true };
    let added: Answer<_> = Box::pin(async move { server.member_add(&nobody(), add).await });
    let added = wait(cluster, "a learner is added", added).unwrap();
    let id = MemberId(added.member.unwrap().id);
    cluster.join(id, "n", |_| {});
    cluster.until("the learner is published", |it| it.sites[&id].is_published());
    id
}

/// Who is left of two needs nobody's word any more, be it the one that led or the other; and still knows so when it starts again.
#[test]
fn of_two_one_is_removed_and_the_other_goes_on_alone() {
    for seed in 0..8 {
        let settings = Settings { members: 2, ..Settings::new(seed) };
        let mut cluster = Cluster::new(settings, |config| config.strict_reconfig_check = false);
        cluster.until("both are published", |it| it.sites.values().all(sim::Site::is_published));
        let (leader, other) = (cluster.leader().unwrap(), followers(&cluster)[0]);
        let (goes, stays) = if seed % 2 == 0 { (leader, other) } else { (other, leader) };
        put_many(&mut cluster, goes, 0..10);
        agree(&mut cluster);
        let server = cluster.server(stays).clone();
        let remove = pb::MemberRemoveRequest { id: goes.0 };
        let removed: Answer<_> =
            Box::pin(async move { server.member_remove(&nobody(), remove).await });
        wait(&mut cluster, "one of two is removed", removed).unwrap();
        cluster.until("it ends", |cluster| !cluster.ended.is_empty());
        assert_eq!(cluster.ended, [(goes, StopReason::Removed)]);
        cluster.ended.clear();
        put_many(&mut cluster, stays, 10..20);
        let network = cluster.network.clone();
        cluster.site(stays).lose_power(&network, seed);
        cluster.start(stays);
        put_many(&mut cluster, stays, 20..30);
        let members = cluster.server(stays).state().cluster.now();
        assert_eq!(members.ids().collect::<Vec<_>>(), [stays]);
        let answer = get(cluster.server(stays), "key-7");
        assert_eq!(wait(&mut cluster, "a get", answer).unwrap(), b"value-7");
    }
}
