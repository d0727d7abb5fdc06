//! A cluster of three members with real transports, disks and clocks, in one process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use net::{Address, Dialer, Listener, SocketOptions};
use peer::{Config, PeerTransport, wait};
use prometheus::Registry;
use proto::etcdserverpb as pb;
use server::{Server, StopReason};
use testkit::ports::ReservedPort;
use testkit::waiting::{TIMEOUT, block_on, wait_until};
use testmember::TestMember;

struct Nothing;

impl net::Handler for Nothing {
    type Body = Full<Bytes>;

    async fn call(&self, _: &Arc<net::Connection>, _: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}

/// A member and its transport.
struct Node {
    member: TestMember,
    server: Server,
    transport: Arc<PeerTransport>,
}

/// The names and URLs of the members, and their directory.
struct Cluster {
    dir: tempfile::TempDir,
    members: BTreeMap<String, Vec<String>>,
    _ports: Vec<ReservedPort>,
}

impl Cluster {
    fn of(count: usize) -> Cluster {
        let ports: Vec<_> = (0..count).map(|_| ReservedPort::new()).collect();
        let url = |port: &ReservedPort| format!("http://{}", port.address());
        let members = ports.iter().enumerate();
        let members = members.map(|(n, port)| (format!("m{n}"), vec![url(port)])).collect();
        Cluster { dir: tempfile::tempdir().unwrap(), members, _ports: ports }
    }

    fn start(&self, name: &str) -> Node {
        let urls = &self.members[name];
        let registry = Registry::new();
        let config = Config::new(dialer(), urls.clone());
        let transport = Arc::new(PeerTransport::start(config, &registry).unwrap());
        let address = Address::Tcp(urls[0].trim_start_matches("http://").to_owned());
        let options = SocketOptions { reuse_address: true, ..SocketOptions::default() };
        let listener = Listener::bind(&address, options).unwrap();
        transport.serve(listener, net::Config::default(), Arc::new(Nothing)).unwrap();
        let member = self.member(name, &transport, &registry);
        transport.attach(member.server());
        Node { server: member.server(), member, transport }
    }

    fn member(
        &self,
        name: &str,
        transport: &Arc<PeerTransport>,
        registry: &Registry,
    ) -> TestMember {
        let member = TestMember::named(name).data_dir(self.dir.path().join(name));
        let member = member.transport(Arc::clone(transport) as _).registry(registry);
        let member = member.config(|config| {
            config.initial_cluster = self.members.clone();
            config.peer_urls = self.members[name].clone();
            // Long enough that a busy machine does not cause elections.
            config.heartbeat = Duration::from_millis(100);
            config.unsafe_no_fsync = false;
        });
        member.try_start().unwrap()
    }
}

fn dialer() -> Dialer {
    let metrics = tls::Metrics::new(&Registry::new()).unwrap();
    let info = tls::Info { protocol: tls::Protocol::Http1, ..tls::Info::default() };
    let side = tls::ClientTls::load("peer-client", info, &metrics).unwrap();
    Dialer::new(Arc::new(side), Duration::from_secs(2))
}

impl Node {
    fn server(&self) -> &Server {
        &self.server
    }

    fn stop(mut self) {
        self.transport.stop(Duration::from_secs(5));
        assert_eq!(self.member.stop(), StopReason::Requested);
    }
}

fn put(server: &Server, key: &str) -> i64 {
    let put = pb::PutRequest {
        key: key.to_owned().into(),
        value: Bytes::from(vec![7; 300]),
        ..Default::default()
    };
    let applied = block_on(server.propose(put).unwrap()).unwrap();
    applied.result.unwrap();
    applied.revision
}

fn keys(server: &Server) -> u64 {
    block_on(server.linearizable()).unwrap();
    server.state().store().keys()
}

#[test]
fn a_cluster_of_three_survives_the_loss_of_its_leader() {
    let cluster = Cluster::of(3);
    let nodes = ["m0", "m1", "m2"].map(|name| cluster.start(name));
    wait_until("all members have a leader", || {
        nodes.iter().all(|node| node.server().leader().is_some())
    });
    // Each member accepts writes and reads those of the others.
    for (n, node) in nodes.iter().enumerate() {
        put(node.server(), &format!("key-{n}"));
    }
    assert!(nodes.iter().all(|node| keys(node.server()) == 3));
    wait_until("all members are connected", || {
        nodes.iter().all(|node| node.transport.active_peers() == 2)
    });

    // A member requests the member list of another.
    let urls = &cluster.members["m1"];
    let known = wait(nodes[0].transport.rpc().members(urls, TIMEOUT)).unwrap();
    assert_eq!(known.members.len(), 3);
    assert_eq!(known.id, nodes[0].server().cluster_id());

    // The leader stops.
    let leader = nodes.iter().position(|node| node.server().is_leader()).unwrap();
    let mut nodes: Vec<Node> = nodes.into();
    nodes.remove(leader).stop();
    wait_until("a member leads", || nodes.iter().any(|node| node.server().is_leader()));
    wait_until("all members have a leader", || {
        nodes.iter().all(|node| node.server().leader().is_some())
    });
    put(nodes[0].server(), "after");
    // It returns and catches up.
    let back = cluster.start(&format!("m{leader}"));
    wait_until("the restarted member has a leader", || back.server().leader().is_some());
    assert_eq!(keys(back.server()), 4);
    nodes.push(back);
    nodes.into_iter().for_each(Node::stop);
}
