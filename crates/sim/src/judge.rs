//! What is demanded in the end: progress through everybody, leases that expire, watchers that hear of it, equal members, and a history that one store explains.

use std::collections::BTreeMap;
use std::path::Path;

use history::{History, Options, Outcome};
use proto::etcdserverpb as pb;
use server::Server;

use crate::client::nanos;
use crate::digest::Digest;
use crate::site::Site;
use crate::story::{Counts, Demand, Told, World};

/// The first of the clients who write through each member in the end.
const WRITERS_FROM: u64 = 1000;

impl World {
    /// Everybody gets on: each member serves a write, what is due happens, and then all are the same.
    pub(crate) fn settle(&mut self) -> Demand {
        self.until("everybody is told", |world| world.clients.is_everybody_told())?;
        self.until("all are published", |world| {
            world.cluster.sites.values().all(Site::is_published)
        })?;
        // Nobody renews any.
        self.until("all leases expire", |world| world.are_leases_gone())?;
        self.write_through_all()?;
        self.until("every watcher is told of the last revision", |world| {
            world.clients.have_watchers_heard(world.last_revision())
        })?;
        self.until("those that run are the members, and have applied the same", |world| {
            world.are_members() && world.have_applied_the_same()
        })?;
        self.compare_all()?;
        let servers: Vec<_> = self.servers().cloned().collect();
        for server in servers {
            let noted = self.clients.note_final(&server, self.cluster.now);
            noted.map_err(|error| format!("{} cannot be read: {error}", server.local()))?;
        }
        Ok(())
    }

    /// Whether all machines run, and those who run are the members, by the word of each: a member that ended as one that was removed really was.
    fn are_members(&self) -> bool {
        let sites = &self.cluster.sites;
        let is_told_so =
            |server: &Server| server.state().cluster.now().ids().eq(sites.keys().copied());
        sites.values().all(Site::is_running) && self.servers().all(is_told_so)
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

    /// A write through every member succeeds, sooner or later.
    fn write_through_all(&mut self) -> Demand {
        let mut number = WRITERS_FROM;
        self.until("every member serves a write", |world| {
            let ids: Vec<_> = world.cluster.sites.keys().copied().collect();
            let Some(id) = ids.get(usize::try_from(number - WRITERS_FROM).unwrap_or(0)) else {
                return true;
            };
            match world.clients.last_of(number) {
                Some(true) => number += 1,
                None => {}
                Some(false) => {
                    if let Some(server) = world.cluster.sites[id].server() {
                        world.clients.write_through(number, server, world.cluster.now);
                    }
                }
            }
            false
        })
    }

    /// Who is a member, which leases there are and which keys they have, users and roles, keys: the same everywhere.
    fn compare_all(&self) -> Demand {
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

    /// What clients saw, judged.
    pub(crate) fn judge(mut self) -> Result<Told, (String, Vec<String>)> {
        let mut digest = self.cluster.network.digest();
        let disks = self.cluster.sites.values();
        for site in disks {
            if let Err(error) = digest.add_disk(&site.disk, Path::new("/")) {
                return Err((format!("{}: {error}", site.id), Vec::new()));
            }
            digest.add_number(nanos(env::Clock::monotonic(&site.clock)));
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
        Ok(Told { digest: digest.value(), history, counts })
    }
}

fn add_history(digest: &mut Digest, history: &History) {
    let mut lines = Vec::new();
    // Nothing can go wrong in writing to memory.
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

/// All that a member holds and others must hold, too, in words.
fn describe(server: &Server) -> String {
    let state = server.state();
    let hash = state.store.hash_kv(0);
    let keys = |id| state.lessor.keys_of(id).unwrap_or_default();
    // By their ids: the order in which they expire is each member's own.
    let leases: BTreeMap<_, _> =
        state.lessor.leases().into_iter().map(|id| (id, keys(id))).collect();
    let members = state.cluster.now();
    let accounts = describe_accounts(server);
    format!("{hash:?}\nleases {leases:?}\nmembers {members:?}\n{accounts}")
}

/// Users with their roles, and roles with what they permit.
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
