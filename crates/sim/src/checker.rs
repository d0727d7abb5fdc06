//! The final conditions: every member serves writes, leases expire, watchers receive everything,
//! members are equal, and one store explains the history.

use std::collections::BTreeMap;
use std::path::Path;

use history::{History, Options, Outcome};
use proto::etcdserverpb as pb;
use server::Server;

use crate::client::nanos;
use crate::digest::Digest;
use crate::node::Node;
use crate::scenario::{Checked, Counts, Report, Simulation};

/// Number of the first client that writes through each member at the end.
const WRITERS_FROM: u64 = 1000;

impl Simulation {
    /// Runs until every member serves a write, pending work is done, and all members are equal.
    pub(crate) fn settle(&mut self) -> Checked {
        self.until("no request is in flight", |simulation| simulation.clients.is_idle())?;
        self.until("all members are published", |simulation| {
            simulation.cluster.nodes.values().all(Node::is_published)
        })?;
        // No client renews leases any more.
        self.until("all leases expire", |simulation| simulation.are_leases_gone())?;
        self.write_through_all()?;
        self.until("every watcher receives the last revision", |simulation| {
            simulation.clients.have_watchers_heard(simulation.last_revision())
        })?;
        self.until("the nodes are the members, and have applied the same entries", |simulation| {
            simulation.are_members() && simulation.have_applied_the_same()
        })?;
        self.compare_all()?;
        let servers: Vec<_> = self.servers().cloned().collect();
        for server in servers {
            let noted = self.clients.note_final(&server, self.cluster.now);
            noted.map_err(|error| format!("{} cannot be read: {error}", server.local()))?;
        }
        Ok(())
    }

    /// Whether all nodes run and every member lists exactly these as members. A member that stopped
    /// as removed really was removed.
    fn are_members(&self) -> bool {
        let nodes = &self.cluster.nodes;
        let lists_the_nodes =
            |server: &Server| server.state().cluster.now().ids().eq(nodes.keys().copied());
        nodes.values().all(Node::is_running) && self.servers().all(lists_the_nodes)
    }

    fn are_leases_gone(&self) -> bool {
        self.servers().all(|server| server.state().lessor.leases().is_empty())
    }

    fn last_revision(&self) -> i64 {
        self.servers().map(|server| server.state().store.current()).max().unwrap_or(0)
    }

    fn have_applied_the_same(&self) -> bool {
        let mut applied: Vec<_> = self.servers().map(Server::applied).collect();
        applied.dedup();
        applied.len() == 1
    }

    /// Waits until a write through every member has succeeded.
    fn write_through_all(&mut self) -> Checked {
        let mut number = WRITERS_FROM;
        self.until("every member serves a write", |simulation| {
            let ids: Vec<_> = simulation.cluster.nodes.keys().copied().collect();
            let Some(id) = ids.get(usize::try_from(number - WRITERS_FROM).unwrap_or(0)) else {
                return true;
            };
            match simulation.clients.last_of(number) {
                Some(true) => number += 1,
                None => {}
                Some(false) => {
                    if let Some(server) = simulation.cluster.nodes[id].server() {
                        simulation.clients.write_through(number, server, simulation.cluster.now);
                    }
                }
            }
            false
        })
    }

    /// Compares members, leases with their keys, users, roles and keys of all members.
    fn compare_all(&self) -> Checked {
        let mut first: Option<(String, types::MemberId)> = None;
        for server in self.servers() {
            let held = describe(server);
            match &first {
                None => first = Some((held, server.local())),
                Some((other, of)) if *other != held => {
                    return Err(format!(
                        "members differ:\n{of}: {other}\n{}: {held}",
                        server.local()
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Checks the history of the clients.
    pub(crate) fn check_history(mut self) -> Result<Report, (String, Vec<String>)> {
        let mut digest = self.cluster.network.digest();
        let disks = self.cluster.nodes.values();
        for node in disks {
            if let Err(error) = digest.add_disk(&node.disk, Path::new("/")) {
                return Err((format!("{}: {error}", node.id), Vec::new()));
            }
            digest.add_number(nanos(env::Clock::monotonic(&node.clock)));
        }
        self.counts.steps = self.cluster.steps;
        self.counts.snapshots = self.cluster.network.snapshots();
        self.counts.terms = self.servers().map(|it| it.term().0).max().unwrap_or(0);
        let (journal, mut counts) = (self.journal, self.counts);
        let history = self.clients.into_history();
        add_history(&mut digest, &history);
        let log = history::check(&history, &Options::default()).map_err(|violations| {
            let words: Vec<_> = violations.iter().map(ToString::to_string).collect();
            (words.join("\n"), journal.lines().to_vec())
        })?;
        counts.revisions = u64::try_from(log.revision()).unwrap_or(0);
        count(&mut counts, &history);
        Ok(Report { digest: digest.value(), history, counts })
    }
}

fn add_history(digest: &mut Digest, history: &History) {
    let mut lines = Vec::new();
    // Writing to memory cannot fail.
    let _ = history.write(&mut lines);
    digest.add(&lines);
}

fn count(counts: &mut Counts, history: &History) {
    counts.operations = history.operations.len() as u64;
    for operation in &history.operations {
        match operation.outcome {
            Outcome::Answered { .. } => counts.answered += 1,
            Outcome::Unknown { .. } => counts.unknown += 1,
            Outcome::Refused { .. } => {}
        }
    }
    let responses = history.watches.iter().flat_map(|watch| &watch.responses);
    counts.events = responses
        .map(|response| match &response.body {
            history::record::WatchBody::Events(events) => events.len() as u64,
            _ => 0,
        })
        .sum();
}

/// Describes the replicated state of a member.
fn describe(server: &Server) -> String {
    let state = server.state();
    let hash = state.store.hash_kv(0);
    let keys = |id| state.lessor.keys_of(id).unwrap_or_default();
    // Sorted by id, since the order of expiry is local to each member.
    let leases: BTreeMap<_, _> =
        state.lessor.leases().into_iter().map(|id| (id, keys(id))).collect();
    let members = state.cluster.now();
    let accounts = describe_accounts(server);
    format!("{hash:?}\nleases {leases:?}\nmembers {members:?}\n{accounts}")
}

/// Describes users with their roles, and roles with their permissions.
fn describe_accounts(server: &Server) -> String {
    let auth = &server.state().auth;
    let roles_of = |name: &String| auth.user_get(&pb::AuthUserGetRequest { name: name.clone() });
    let users = auth.user_list().users;
    let users: Vec<_> = users.iter().map(|name| (name, roles_of(name))).collect();
    let permits = |role: &String| auth.role_get(&pb::AuthRoleGetRequest { role: role.clone() });
    let roles = auth.role_list().roles;
    let roles: Vec<_> = roles.iter().map(|role| (role, permits(role))).collect();
    format!("accounts as of {}: users {users:?}, roles {roles:?}", auth.revision())
}
