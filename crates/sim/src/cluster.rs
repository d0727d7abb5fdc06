//! Members and the network between them, advanced step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use env::SeededRandom;
use membership::Membership;
use server::stages::Stage;
use server::{ExistingCluster, Server, ServerConfig, StartError, StopReason};
use simkit::NetworkConditions;
use types::MemberId;

use crate::network::Network;
use crate::node::Node;

/// The parameters of a cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of initial members.
    pub members: usize,
    /// Network conditions.
    pub conditions: NetworkConditions,
    /// Maximum simulated time per step.
    pub step_max: Duration,
}

impl Settings {
    /// Returns the settings of three members and a reliable network.
    pub fn new(seed: u64) -> Settings {
        let step_max = Duration::from_millis(20);
        Settings { seed, members: 3, conditions: NetworkConditions::default(), step_max }
    }
}

/// A simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    /// Chooses the stages that run.
    pub random: SeededRandom,
    /// The network between the members.
    pub network: Network,
    /// The members, by id.
    pub nodes: BTreeMap<MemberId, Node>,
    /// Members that have stopped by themselves, with the reason.
    pub stopped: Vec<(MemberId, StopReason)>,
    /// The clients' clock. No member's clock runs faster.
    pub now: Duration,
    /// Number of steps.
    pub steps: u64,
}

impl Cluster {
    /// Creates a cluster and starts all its members.
    pub fn new(settings: Settings, config: impl Fn(&mut ServerConfig)) -> Cluster {
        let random = SeededRandom::new(settings.seed);
        let network = Network::new(!settings.seed, settings.conditions);
        let names: Vec<_> = (0..settings.members).map(name).collect();
        let initial: BTreeMap<_, _> =
            names.iter().map(|name| (name.clone(), vec![peer_url(name)])).collect();
        let (_, members) = Membership::bootstrap("etcd-cluster", &initial)
            .unwrap_or_else(|error| panic!("{error}"));
        let (nodes, stopped) = (BTreeMap::new(), Vec::new());
        let mut cluster =
            Cluster { settings, random, network, nodes, stopped, now: Duration::ZERO, steps: 0 };
        for member in members.members() {
            let mut config = cluster.config(&member.attributes.name, &config);
            config.initial_cluster.clone_from(&initial);
            cluster.add_node(member.id, config);
        }
        cluster
    }

    fn config(&self, name: &str, change: impl Fn(&mut ServerConfig)) -> ServerConfig {
        let mut config = ServerConfig::new(name, "/data");
        config.peer_urls = vec![peer_url(name)];
        config.client_urls = vec![format!("http://{name}:2379")];
        config.backend.bolt.page_size = 1024;
        config.backend.bolt.grow_bytes = 8 << 10;
        config.segment_bytes = 16 << 10;
        change(&mut config);
        config
    }

    fn add_node(&mut self, id: MemberId, config: ServerConfig) {
        let seed = self.random.next();
        let mut node = Node::new(id, config, seed);
        node.start(&self.network).unwrap_or_else(|error| panic!("{id}: {error}"));
        self.nodes.insert(id, node);
    }

    /// Starts a member that was added to the cluster, on a new node.
    pub fn join(&mut self, id: MemberId, name: &str, change: impl Fn(&mut ServerConfig)) {
        let views = self.servers().map(|it| (it.cluster_id(), it.membership()));
        let view = views.filter(|(_, members)| members.member(id).is_some()).last();
        let Some((cluster_id, members)) = view else { panic!("no member lists {id}") };
        let members = (*members).clone();
        let mut config = self.config(name, change);
        config.join = Some(ExistingCluster { cluster_id, local: id, members });
        self.add_node(id, config);
    }

    /// Returns the running members.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.nodes.values().filter_map(Node::server)
    }

    /// Returns a running member.
    pub fn server(&self, id: MemberId) -> &Server {
        self.nodes[&id].server().unwrap_or_else(|| panic!("{id} is not running"))
    }

    /// Returns a node.
    pub fn node(&mut self, id: MemberId) -> &mut Node {
        self.nodes.get_mut(&id).unwrap_or_else(|| panic!("no node {id}"))
    }

    /// Restarts a member.
    pub fn start(&mut self, id: MemberId) {
        let network = self.network.clone();
        let started = self.node(id).start(&network);
        started.unwrap_or_else(|error| panic!("{id}: {error}"));
    }

    /// Tries to restart a member.
    ///
    /// # Errors
    /// The member does not start.
    pub fn try_start(&mut self, id: MemberId) -> Result<(), StartError> {
        let network = self.network.clone();
        self.node(id).start(&network)
    }

    /// Returns the leader of the newest term.
    pub fn leader(&self) -> Option<MemberId> {
        let leaders = self.servers().filter(|server| server.is_leader());
        leaders.max_by_key(|server| server.term()).map(Server::local)
    }

    /// Advances by one step: delivers messages, advances clocks, runs some stages.
    pub fn step(&mut self) {
        self.network.step();
        self.steps += 1;
        let time = self.settings.step_max.mul_f64(self.random.below(1000) as f64 / 1000.0);
        self.now += time;
        let ids: Vec<_> = self.nodes.keys().copied().collect();
        for id in ids {
            let turns = 1 + self.random.below(8);
            let stages: Vec<_> = (0..turns).map(|_| self.draw_stage()).collect();
            let node = self.node(id);
            node.advance_clock(time);
            stages.into_iter().for_each(|stage| node.turn(stage));
            self.reap(id);
        }
    }

    fn draw_stage(&mut self) -> Stage {
        // Favors the stages of the pipeline: most bugs depend on their interleaving.
        match self.random.below(16) {
            0..3 => Stage::Raft,
            3 => Stage::Timers,
            4..7 => Stage::Log,
            7..10 => Stage::Apply,
            10 => Stage::Snapshot,
            11 => Stage::Commit,
            12 => Stage::Watch,
            13 => Stage::Background,
            14 => Stage::Pools,
            _ if self.random.chance(1, 2) => Stage::Compact,
            _ => Stage::Prepare,
        }
    }

    fn reap(&mut self, id: MemberId) {
        let network = self.network.clone();
        if let Some(reason) = self.node(id).reap(&network) {
            self.stopped.push((id, reason));
        }
    }

    /// Runs until a condition holds, which `what` describes. Panics if it does not hold within a
    /// bounded number of steps.
    pub fn run_until(&mut self, what: &str, mut condition: impl FnMut(&mut Cluster) -> bool) {
        const STEPS_MAX: usize = 20_000;
        for _ in 0..STEPS_MAX {
            if condition(self) {
                return;
            }
            self.step();
        }
        panic!("not reached in {STEPS_MAX} steps: {what}\n{}", self.describe());
    }
}

impl Cluster {
    /// Describes all members, for failure messages.
    pub fn describe(&self) -> String {
        let describe = |node: &Node| match node.server() {
            None => format!("{} ({}): not running", node.id, node.config.name),
            Some(server) => format!(
                "{} ({}): term {}, leader {:?}, committed {}, applied {}, published {}",
                node.id,
                node.config.name,
                server.term(),
                server.leader(),
                server.committed(),
                server.applied(),
                node.is_published()
            ),
        };
        let nodes: Vec<_> = self.nodes.values().map(describe).collect();
        format!("{}\nstopped: {:?}", nodes.join("\n"), self.stopped)
    }
}

/// Returns the name of a member by its number: `a`, `b`, `c`, …
fn name(number: usize) -> String {
    let letter = u8::try_from(number).map_or('?', |number| char::from(b'a' + number));
    letter.to_string()
}

/// Returns the peer URL of a member.
pub(crate) fn peer_url(name: &str) -> String {
    format!("http://{name}:2380")
}
