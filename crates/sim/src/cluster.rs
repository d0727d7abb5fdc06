//! Members and the network between them, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use env::SeededRandom;
use membership::Membership;
use server::stages::Stage;
use server::{ExistingCluster, Server, ServerConfig, StartError, StopReason};
use types::MemberId;

use crate::network::{Network, Weather};
use crate::site::Site;

/// What a cluster is to be like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What everything follows from.
    pub seed: u64,
    /// How many begin it.
    pub members: usize,
    /// How the network is.
    pub weather: Weather,
    /// How much time passes in a step, at most.
    pub step: Duration,
}

impl Settings {
    /// Three members and a quiet network.
    pub fn new(seed: u64) -> Settings {
        let step = Duration::from_millis(20);
        Settings { seed, members: 3, weather: Weather::default(), step }
    }
}

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    /// Chooses whose turn it is.
    pub random: SeededRandom,
    /// Between the members.
    pub network: Network,
    /// The members, by id.
    pub sites: BTreeMap<MemberId, Site>,
    /// Members that have ended by themselves, and why.
    pub ended: Vec<(MemberId, StopReason)>,
    /// The time, as clients have it: no clock of a member goes faster.
    pub now: Duration,
    /// How many steps there were.
    pub steps: u64,
}

impl Cluster {
    /// A cluster that begins, with all its members running.
    pub fn new(settings: Settings, config: impl Fn(&mut ServerConfig)) -> Cluster {
        let random = SeededRandom::new(settings.seed);
        let network = Network::new(!settings.seed, settings.weather);
        let names: Vec<_> = (0..settings.members).map(name).collect();
        let initial: BTreeMap<_, _> =
            names.iter().map(|name| (name.clone(), vec![peer_url(name)])).collect();
        let (_, members) = Membership::bootstrap("etcd-cluster", &initial)
            .unwrap_or_else(|error| panic!("{error}"));
        let (sites, ended) = (BTreeMap::new(), Vec::new());
        let mut cluster =
            Cluster { settings, random, network, sites, ended, now: Duration::ZERO, steps: 0 };
        for member in members.members() {
            let mut config = cluster.config(&member.attributes.name, &config);
            config.initial_cluster.clone_from(&initial);
            cluster.add_site(member.id, config);
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

    fn add_site(&mut self, id: MemberId, config: ServerConfig) {
        let seed = self.random.next();
        let mut site = Site::new(id, config, seed);
        site.start(&self.network).unwrap_or_else(|error| panic!("{id}: {error}"));
        self.sites.insert(id, site);
    }

    /// Starts a member that was added to the cluster, on a machine of its own.
    pub fn join(&mut self, id: MemberId, name: &str, change: impl Fn(&mut ServerConfig)) {
        let known = self.servers().map(|it| (it.cluster_id(), it.state().cluster.now()));
        let known = known.filter(|(_, members)| members.member(id).is_some()).last();
        let Some((cluster_id, members)) = known else { panic!("nobody knows {id}") };
        let members = (*members).clone();
        let mut config = self.config(name, change);
        config.join = Some(ExistingCluster { cluster_id, local: id, members });
        self.add_site(id, config);
    }

    /// The members that run.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.sites.values().filter_map(Site::server)
    }

    /// A member that runs.
    pub fn server(&self, id: MemberId) -> &Server {
        self.sites[&id].server().unwrap_or_else(|| panic!("{id} does not run"))
    }

    /// A member's machine.
    pub fn site(&mut self, id: MemberId) -> &mut Site {
        self.sites.get_mut(&id).unwrap_or_else(|| panic!("{id} is not known"))
    }

    /// Starts a member again.
    pub fn start(&mut self, id: MemberId) {
        let network = self.network.clone();
        let started = self.site(id).start(&network);
        started.unwrap_or_else(|error| panic!("{id}: {error}"));
    }

    /// Starts a member again, if it starts.
    ///
    /// # Errors
    /// It does not start.
    pub fn try_start(&mut self, id: MemberId) -> Result<(), StartError> {
        let network = self.network.clone();
        self.site(id).start(&network)
    }

    /// Who leads, as the newest term has it.
    pub fn leader(&self) -> Option<MemberId> {
        let leads = self.servers().filter(|server| server.is_leader());
        leads.max_by_key(|server| server.term()).map(Server::local)
    }

    /// Something happens: a message arrives, time passes, some stages have turns.
    pub fn step(&mut self) {
        self.network.step();
        self.steps += 1;
        let time = self.settings.step.mul_f64(self.random.below(1000) as f64 / 1000.0);
        self.now += time;
        let ids: Vec<_> = self.sites.keys().copied().collect();
        for id in ids {
            let turns = 1 + self.random.below(8);
            let stages: Vec<_> = (0..turns).map(|_| self.any_stage()).collect();
            let site = self.site(id);
            site.pass(time);
            stages.into_iter().for_each(|stage| site.turn(stage));
            self.reap(id);
        }
    }

    fn any_stage(&mut self) -> Stage {
        // The pipeline is what is to be mixed up; the rest has a turn now and then.
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
        if let Some(reason) = self.site(id).reap(&network) {
            self.ended.push((id, reason));
        }
    }

    /// Goes on until something is so. Panics if it does not come to pass.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Cluster) -> bool) {
        const STEPS_MAX: usize = 20_000;
        for _ in 0..STEPS_MAX {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("it does not come to pass: {what}\n{}", self.describe());
    }
}

impl Cluster {
    /// How everybody is, for whoever has to find out why something did not come to pass.
    pub fn describe(&self) -> String {
        let one = |site: &Site| match site.server() {
            None => format!("{} ({}): does not run", site.id, site.config.name),
            Some(server) => format!(
                "{} ({}): term {}, leader {:?}, committed {}, applied {}, published {}",
                site.id,
                site.config.name,
                server.term(),
                server.leader(),
                server.committed(),
                server.applied(),
                site.is_published()
            ),
        };
        let sites: Vec<_> = self.sites.values().map(one).collect();
        format!("{}\nended: {:?}", sites.join("\n"), self.ended)
    }
}

/// `a`, `b`, `c`, …
fn name(number: usize) -> String {
    let letter = u8::try_from(number).map_or('?', |number| char::from(b'a' + number));
    letter.to_string()
}

pub(crate) fn peer_url(name: &str) -> String {
    format!("http://{name}:2380")
}
