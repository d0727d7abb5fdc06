//! The final conditions: every member serves writes, leases expire, watchers receive everything,
//! members are equal, and one store explains the history.

use std::collections::BTreeMap;
use std::path::Path;

use history::{History, Options, Outcome};
use proto::etcdserverpb as pb;
use server::Server;
use simkit::Digest;

use crate::client::nanos;
use crate::digest::add_disk;
use crate::node::Node;
use crate::scenario::{Checked, Counts, Failure, Report, Simulation};

/// Client number of the first of the clients that write through each member at the end.
const WRITERS_FROM: u64 = 1000;

impl Simulation {
    /// Runs until every member serves a write, pending work is done, and all members are equal.
    pub(crate) fn settle(&mut self) -> Checked {
        self.run_until("no request is in flight", |simulation| simulation.clients.is_idle())?;
        self.run_until("all members are published", |simulation| {
            simulation.cluster.nodes.values().all(Node::is_published)
        })?;
        // Clients send no more requests, so no lease is renewed.
        self.run_until("all leases expire", |simulation| simulation.have_leases_expired())?;
        self.put_through_all()?;
        self.run_until("every watcher receives the last revision", |simulation| {
            simulation.clients.watchers_have_reached(simulation.last_revision())
        })?;
        self.run_until(
            "the nodes match the membership and have applied the same entries",
            |simulation| {
                simulation.nodes_match_membership() && simulation.have_applied_same_entries()
            },
        )?;
        self.compare_all()?;
        let servers: Vec<_> = self.servers().cloned().collect();
        for server in servers {
            let recorded = self.clients.record_final(&server, self.cluster.now);
            recorded.map_err(|error| format!("{} cannot be read: {error}", server.local()))?;
        }
        Ok(())
    }

    /// Returns whether all nodes run and every member lists exactly the nodes as members. A member
    /// that wrongly stopped as removed is detected here: its node stays and does not run.
    fn nodes_match_membership(&self) -> bool {
        let nodes = &self.cluster.nodes;
        let lists_the_nodes = |server: &Server| server.membership().ids().eq(nodes.keys().copied());
        nodes.values().all(Node::is_running) && self.servers().all(lists_the_nodes)
    }

    fn have_leases_expired(&self) -> bool {
        self.servers().all(|server| server.state().lessor().leases().is_empty())
    }

    fn last_revision(&self) -> i64 {
        self.servers().map(|server| server.state().store().current()).max().unwrap_or(0)
    }

    fn have_applied_same_entries(&self) -> bool {
        let mut applied: Vec<_> = self.servers().map(Server::applied).collect();
        applied.dedup();
        applied.len() == 1
    }

    /// Waits until a put through every member has succeeded.
    fn put_through_all(&mut self) -> Checked {
        let mut client = WRITERS_FROM;
        self.run_until("every member serves a write", |simulation| {
            let ids: Vec<_> = simulation.cluster.nodes.keys().copied().collect();
            let Some(id) = ids.get(usize::try_from(client - WRITERS_FROM).unwrap_or(0)) else {
                return true;
            };
            match simulation.clients.has_succeeded(client) {
                Some(true) => client += 1,
                None => {}
                Some(false) => {
                    if let Some(server) = simulation.cluster.nodes[id].server() {
                        simulation.clients.put_through(client, server, simulation.cluster.now);
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
            let state = describe(server);
            match &first {
                None => first = Some((state, server.local())),
                Some((other, member)) if *other != state => {
                    return Err(format!(
                        "members differ:\n{member}: {other}\n{}: {state}",
                        server.local()
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Checks the history of the clients.
    pub(crate) fn check_history(mut self) -> Result<Report, Failure> {
        let (seed, digest) = (self.scenario.seed, self.digest());
        self.counts.steps = self.cluster.steps;
        self.counts.snapshots = self.cluster.network.snapshots();
        self.counts.terms = self.servers().map(|it| it.term().0).max().unwrap_or(0);
        let (journal, mut counts, faults) = (self.journal, self.counts, self.fault_counts);
        let mut digest = match digest {
            Ok(digest) => digest,
            Err(reason) => return Err(Failure { seed, reason, journal }),
        };
        let history = self.clients.into_history();
        add_history(&mut digest, &history);
        match history::check(&history, &Options::default()) {
            Ok(log) => {
                counts.revisions = u64::try_from(log.revision()).unwrap_or(0);
                count(&mut counts, &history);
                Ok(Report { digest: digest.value(), history, counts, faults })
            }
            Err(violations) => {
                let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
                Err(Failure { seed, reason: texts.join("\n"), journal })
            }
        }
    }

    /// Returns the digest of all messages, disks and clocks.
    fn digest(&self) -> Result<Digest, String> {
        let mut digest = self.cluster.network.digest();
        for node in self.cluster.nodes.values() {
            add_disk(&mut digest, &node.disk, Path::new("/"))
                .map_err(|error| format!("{}: {error}", node.id))?;
            digest.add_number(nanos(env::Clock::monotonic(&node.clock)));
        }
        Ok(digest)
    }
}

/// Adds the recorded history.
fn add_history(digest: &mut Digest, history: &History) {
    let mut lines = Vec::new();
    // Writing to a `Vec` cannot fail.
    let _ = history.write(&mut lines);
    digest.add(&lines);
}

/// Counts operations and events.
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
    let hash = state.store().hash_kv(0);
    let keys = |id| state.lessor().keys_of(id).unwrap_or_default();
    // Sorted by id, since the order of expiry is local to each member.
    let leases: BTreeMap<_, _> =
        state.lessor().leases().into_iter().map(|id| (id, keys(id))).collect();
    let members = state.cluster().now();
    let auth = describe_auth(server);
    format!("{hash:?}\nleases {leases:?}\nmembers {members:?}\n{auth}")
}

/// Describes users with their roles, and roles with their permissions.
fn describe_auth(server: &Server) -> String {
    let state = server.state();
    let auth = state.auth();
    let roles_of = |name: &String| auth.user_get(&pb::AuthUserGetRequest { name: name.clone() });
    let users = auth.user_list().users;
    let users: Vec<_> = users.iter().map(|name| (name, roles_of(name))).collect();
    let permissions_of =
        |role: &String| auth.role_get(&pb::AuthRoleGetRequest { role: role.clone() });
    let roles = auth.role_list().roles;
    let roles: Vec<_> = roles.iter().map(|role| (role, permissions_of(role))).collect();
    format!("auth revision {}: users {users:?}, roles {roles:?}", auth.revision())
}
