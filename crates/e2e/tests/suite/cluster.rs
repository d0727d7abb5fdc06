//! Clusters: election, failover, members added and removed, discovery.

use std::cell::Cell;
use std::time::Duration;

use e2e::process::Signal;
use e2e::{Client, Member, Options, Sandbox, Stopped, TIMEOUT, http, start_cluster};
use proto::etcdserverpb as pb;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::codegen::tokio_stream;

/// Logged by a member that is terminated and does not lead.
const NOT_LEADER: &str = "skipped leadership transfer; local server is not leader";
/// The most members to terminate until one is still the leader when it gets the signal.
const TERMINATIONS_MAX: usize = 5;

/// The index of the leader. Waits for one: a busy machine may delay heartbeats, so that the members
/// elect again.
async fn leader(members: &[Member]) -> usize {
    let leader = leader_other_than(0, &members[0]).await;
    for (number, member) in members.iter().enumerate() {
        if id(member).await == leader {
            return number;
        }
    }
    panic!("no member has id {leader:x}");
}

/// Waits until the member knows another leader than this. Returns its id.
async fn leader_other_than(old: u64, member: &Member) -> u64 {
    let client = member.client();
    let status = || async {
        match client.status().await?.leader {
            leader if leader == 0 || leader == old => Err(Status::unavailable("no leader")),
            leader => Ok(leader),
        }
    };
    retry("a leader", status).await
}

async fn id(member: &Member) -> u64 {
    member.client().status().await.unwrap().header.unwrap().member_id
}

/// Terminates the leader. Returns its id. A member that lost its leadership before the signal is
/// restarted.
async fn terminate_leader(members: &mut Vec<Member>) -> (u64, Stopped) {
    for _ in 0..TERMINATIONS_MAX {
        let leader = members.remove(leader(members).await);
        let id = id(&leader).await;
        let stopped = leader.terminate();
        if !stopped.end.text().contains(NOT_LEADER) {
            return (id, stopped);
        }
        members.push(stopped.start());
    }
    panic!("the leader changed before the signal, {TERMINATIONS_MAX} times");
}

/// Makes a change of the member list, with retries. Returns the list after it. A failed attempt may
/// have taken effect: the next one is refused with `already_done_text` then, and the caller checks
/// the list.
async fn change_members<T, F>(
    what: &str,
    client: &Client,
    already_done_text: &str,
    change: impl Fn() -> F,
) -> Vec<pb::Member>
where
    F: Future<Output = Result<T, Status>>,
{
    let has_failed = Cell::new(false);
    let attempt = || async {
        match change().await {
            Err(status) if has_failed.get() && status.message() == already_done_text => Ok(()),
            result => {
                has_failed.set(result.is_err());
                result.map(drop)
            }
        }
    };
    retry(what, attempt).await;
    let list = || async {
        client.cluster().member_list(pb::MemberListRequest { linearizable: true }).await
    };
    retry("the member list", list).await.into_inner().members
}

/// Retries until a call succeeds, since there may be no leader for a while.
pub(crate) async fn retry<T, F>(what: &str, call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, Status>>,
{
    let attempts = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                // The pause between two attempts of a client.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let answered = timeout(TIMEOUT, attempts).await;
    answered.unwrap_or_else(|_| panic!("timed out after {TIMEOUT:?}: {what}"))
}

async fn put(client: &Client, key: &str) {
    retry(key, || client.put(key, "v")).await;
}

async fn keys(client: &Client) -> usize {
    let found = retry("a range", || client.get_prefix("k")).await;
    found.kvs.len()
}

/// Asserts that all members have the same hash, after a linearizable read on each.
async fn agree(members: &[Member]) {
    let mut hashes = Vec::new();
    for member in members {
        // A linearizable read, after which the member has applied everything.
        keys(&member.client()).await;
        let client = member.client();
        let hash = client.maintenance().hash_kv(pb::HashKvRequest { revision: 0 }).await;
        let hash = hash.unwrap().into_inner();
        hashes.push((hash.hash, hash.hash_revision));
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "{hashes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced() {
    let mut members = start_cluster(3, |options| options);
    for (number, member) in members.iter().enumerate() {
        put(&member.client(), &format!("k{number}")).await;
    }
    agree(&members).await;
    let killed = members.remove(leader(&members).await).kill();
    put(&members[0].client(), "k3").await;
    assert_eq!(keys(&members[1].client()).await, 4);
    members.push(killed.start());
    put(&members[2].client(), "k4").await;
    agree(&members).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_leader_transfers_leadership() {
    let mut members = start_cluster(3, |options| options);
    put(&members[0].client(), "k0").await;
    let (old, stopped) = terminate_leader(&mut members).await;
    assert_eq!(stopped.end.signal(), Some(Signal::TERM));
    let text = stopped.end.text();
    assert!(text.contains("leadership transfer finished"), "{text}");
    // The other member may learn of the new leader a moment after the old one has exited.
    leader_other_than(old, &members[0]).await;
    members[0].client().put("k1", "v").await.unwrap();
    assert_eq!(keys(&members[1].client()).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_far_behind_receives_a_snapshot() {
    let few = |options: Options| {
        options.flag("snapshot-count", "50").flag("snapshot-catchup-entries", "10")
    };
    let mut members = start_cluster(3, few);
    let away = (leader(&members).await + 1) % 3;
    let killed = members.remove(away).kill();
    for number in 0..300 {
        put(&members[0].client(), &format!("k{number}")).await;
    }
    members.push(killed.start());
    members[2].log().wait_for_message("applySnapshot: opened snapshot backend");
    let record = members[2].log().wait_for_message("applied snapshot");
    assert_eq!(record["current-applied-index"], record["incoming-leader-snapshot-index"]);
    assert!(record["incoming-leader-snapshot-term"].as_u64().unwrap() > 0, "{record}");
    assert_eq!(keys(&members[2].client()).await, 300);
    agree(&members).await;
    // The snapshot survives a restart.
    let again = members.remove(2).kill().start();
    members.push(again);
    agree(&members).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_is_added_promoted_and_removed() {
    let mut members = start_cluster(3, |options| options);
    for number in 0..20 {
        put(&members[0].client(), &format!("k{number}")).await;
    }
    let sandbox = Sandbox::new();
    let peer_urls = vec![format!("http://{}", sandbox.peer_address())];
    let add = || {
        let (client, peer_urls) = (members[1].client(), peer_urls.clone());
        async move {
            client.cluster().member_add(pb::MemberAddRequest { peer_urls, is_learner: true }).await
        }
    };
    // Adding is refused until all peers have been connected long enough.
    let done = "etcdserver: Peer URLs already exists";
    let listed = change_members("adding a learner", &members[1].client(), done, add).await;
    let added = listed.iter().find(|member| member.peer_urls == peer_urls).unwrap();
    assert!(added.is_learner, "{added:?}");
    let id = added.id;
    let others = listed.iter().filter(|member| member.id != id);
    let initial_cluster = others.map(|member| format!("{}={}", member.name, member.peer_urls[0]));
    let initial_cluster =
        initial_cluster.chain([format!("m4={}", peer_urls[0])]).collect::<Vec<_>>().join(",");
    let options = Options::new().flag("name", "m4").flag("initial-cluster", initial_cluster);
    let options = options.flag("initial-cluster-state", "existing");
    members.push(Member::start_in(sandbox, options));
    let learner = members[3].client();
    assert!(learner.status().await.unwrap().is_learner);
    let refused = learner.put("k", "v").await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: rpc not supported for learner");
    let promote = || {
        let client = members[0].client();
        async move { client.cluster().member_promote(pb::MemberPromoteRequest { id }).await }
    };
    let done = "etcdserver: can only promote a learner member";
    let listed = change_members("a promotion", &members[0].client(), done, promote).await;
    assert_eq!(listed.iter().filter(|member| !member.is_learner).count(), 4, "{listed:?}");
    put(&learner, "k20").await;
    agree(&members).await;

    let remove = || {
        let client = members[0].client();
        async move { client.cluster().member_remove(pb::MemberRemoveRequest { id }).await }
    };
    let done = "etcdserver: member not found";
    let listed = change_members("a removal", &members[0].client(), done, remove).await;
    assert!(listed.iter().all(|member| member.id != id), "{listed:?}");
    let ended = members.remove(3).wait();
    assert_eq!(ended.end.code(), Some(0), "{}", ended.end.text());
    let text = ended.end.text();
    assert!(text.contains("the member has been permanently removed from the cluster"), "{text}");
    put(&members[0].client(), "k21").await;
    // A restart is refused with the same message.
    let again = ended.sandbox.spawn(&ended.options).wait();
    let text = again.text();
    assert!(text.contains("the member has been permanently removed from the cluster"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn force_new_cluster_keeps_the_data_of_one_member() {
    let mut members = start_cluster(3, |options| options);
    put(&members[0].client(), "k0").await;
    agree(&members).await;
    let left = members.remove(1).kill();
    drop(members);
    let alone = left.start_with(|options| options.flag("force-new-cluster", "true"));
    put(&alone.client(), "k1").await;
    assert_eq!(keys(&alone.client()).await, 2);
    let list = alone.client().cluster().member_list(pb::MemberListRequest::default()).await;
    assert_eq!(list.unwrap().into_inner().members.len(), 1);
    let again = alone.kill().start_with(|options| options.without("force-new-cluster"));
    put(&again.client(), "k2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_serve_leases_and_watches() {
    let members = start_cluster(3, |options| options);
    let follower = &members[(leader(&members).await + 1) % 3];
    let client = follower.client();
    // The member chooses the id, so that a repeated grant is another lease.
    let grant = pb::LeaseGrantRequest { ttl: 1000, id: 0 };
    let granted = retry("a grant", || async { client.lease().lease_grant(grant).await }).await;
    let id = granted.into_inner().id;
    let ask = pb::LeaseTimeToLiveRequest { id, keys: true };
    let left =
        retry("a time to live", || async { client.lease().lease_time_to_live(ask).await }).await;
    let left = left.into_inner();
    assert_eq!((left.granted_ttl, left.ttl > 800), (1000, true));
    let renew = || async {
        let keep = tokio_stream::iter([pb::LeaseKeepAliveRequest { id }]);
        client.lease().lease_keep_alive(keep).await?.into_inner().message().await
    };
    assert_eq!(retry("a renewal", renew).await.unwrap().ttl, 1000);
    let mut watching = client.watch_prefix("k", 1).await.unwrap();
    put(&members[0].client(), "k0").await;
    put(&members[1].client(), "k1").await;
    let events = watching.events(2).await.unwrap();
    assert_eq!(events.len(), 2);
}

#[test]
fn a_start_is_checked_against_the_running_cluster() {
    let members = start_cluster(3, |options| options);
    let peer = members[0].sandbox().peer_address();
    let list = http::get(&peer, "/members");
    assert_eq!(list.status, 200);
    assert!(list.header("x-etcd-cluster-id").is_some_and(|id| !id.is_empty()));
    let initial: Vec<_> = members
        .iter()
        .enumerate()
        .map(|(n, member)| format!("m{}=http://{}", n + 1, member.sandbox().peer_address()))
        .collect();
    let initial = initial.join(",");

    // A known member without its data must not bootstrap again.
    let stopped: Vec<_> = members.into_iter().collect();
    let mut stopped = stopped.into_iter();
    let lost = stopped.next().unwrap().terminate();
    std::fs::remove_dir_all(lost.data_dir()).unwrap();
    let ended = lost.refused();
    assert_eq!(ended.code(), Some(1));
    assert!(ended.text().contains("has already been bootstrapped"), "{}", ended.text());

    // A joining member whose initial cluster does not match is rejected.
    let sandbox = Sandbox::new();
    let initial_cluster = format!("{initial},m9=http://{}", sandbox.peer_address());
    let options = Options::new().flag("name", "m9").flag("initial-cluster", initial_cluster);
    let ended = sandbox.run(&options.flag("initial-cluster-state", "existing"));
    assert_eq!(ended.code(), Some(1));
    assert!(ended.text().contains("member count is unequal"), "{}", ended.text());

    let unreachable = Sandbox::new();
    let options = Options::new().flag("initial-cluster-state", "existing");
    let ended = unreachable.run(&options);
    let text = "cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs";
    assert!(ended.text().contains(text), "{}", ended.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn members_use_peer_auto_tls() {
    let members = start_cluster(3, |options| {
        let url = "https://127.0.0.1:{peer}";
        let options =
            options.flag("listen-peer-urls", url).flag("initial-advertise-peer-urls", url);
        options.flag("peer-auto-tls", "true")
    });
    put(&members[0].client(), "k0").await;
    assert_eq!(keys(&members[2].client()).await, 1);
    agree(&members).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_find_each_other_by_discovery_token() {
    let list = Member::start(Options::new());
    list.client().put("/_etcd/registry/token/_config/size", "3").await.unwrap();
    let endpoint = format!("http://{}", list.sandbox().client_address());
    let found = |number: usize| {
        let options = Options::new().without("initial-cluster").flag("name", format!("m{number}"));
        let options = options.flag("discovery-token", "token");
        (Sandbox::new(), options.flag("discovery-endpoints", &*endpoint))
    };
    let members = Member::start_together((1..=3).map(found).collect());
    put(&members[0].client(), "k0").await;
    agree(&members).await;
    // The cluster is complete.
    let (sandbox, options) = found(4);
    let ended = sandbox.run(&options);
    assert!(ended.text().contains("cluster is full"), "{}", ended.text());
}

/// The name of the other member has no address, so that only the proxy could reach it.
#[tokio::test]
async fn peers_are_reached_through_the_proxy_of_the_environment() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = Options::new()
        .flag("name", "m1")
        .flag("initial-cluster", "m1=http://127.0.0.1:{peer},m2=http://m2.invalid:2380")
        .env("HTTP_PROXY", format!("http://{}", proxy.local_addr().unwrap()))
        .env("NO_PROXY", "")
        .env("no_proxy", "");
    let _process = Sandbox::new().spawn(&options);
    let stream = "GET http://m2.invalid:2380/raft/stream/";
    let refuse_until_stream =
        async { while !refuse(proxy.accept().await.unwrap().0).await.starts_with(stream) {} };
    let found = timeout(TIMEOUT, refuse_until_stream).await;
    found.expect("timed out waiting for the request of a stream at the proxy");
}

/// Reads the head of a request, refuses it as a proxy does, and returns it.
async fn refuse(connection: TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        connection.readable().await.unwrap();
        match connection.try_read_buf(&mut head) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let refusal = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    connection.writable().await.unwrap();
    // A member that has given up takes no answer.
    let _ = connection.try_write(refusal);
    String::from_utf8(head).unwrap()
}
