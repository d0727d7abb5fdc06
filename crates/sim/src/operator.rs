//! The operator, which adds, promotes and removes members, and creates and removes their nodes. It
//! also changes users and roles, which must be equal on all members.
//!
//! The outcome of a change is not always known, so nodes follow the membership that members report.

use std::collections::BTreeSet;
use std::time::Duration;

use env::SeededRandom;
use membership::Membership;
use proto::authpb::{Permission, UserAddOptions};
use proto::etcdserverpb as pb;
use server::{Error, Server, ServerConfig};
use simkit::RandomExt as _;
use types::MemberId;

use crate::client::{ResponseFuture, anonymous};
use crate::cluster::{Cluster, peer_url};
use crate::journal::Journal;
use crate::poll_once;
use crate::scenario::Counts;

/// Timeout of a change.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum number of members.
const MEMBERS_MAX: usize = 5;
/// Number of user and role names: few, so that some exist and some do not.
const NAMES: u64 = 3;

/// Changes the membership, and users and roles.
pub(crate) struct Operator {
    random: SeededRandom,
    /// The operator requests a change once in this many steps, on average.
    interval_steps: u64,
    pending: Option<PendingChange>,
    /// Number of members that the operator has named.
    names: u32,
    /// Members whose nodes were removed. Members that are behind may still list them.
    removed_nodes: BTreeSet<MemberId>,
    /// Members that have stopped because they were removed, until their nodes are removed.
    removed_members: BTreeSet<MemberId>,
}

/// A change in flight.
struct PendingChange {
    description: String,
    /// The member that received the request.
    member: MemberId,
    deadline: Duration,
    response: ResponseFuture<()>,
}

impl Operator {
    pub(crate) fn new(seed: u64) -> Operator {
        let mut random = SeededRandom::new(seed);
        // In a third of the scenarios nothing changes.
        let interval_steps = if random.chance(1, 3) { u64::MAX } else { 60 + random.below(240) };
        Operator {
            random,
            interval_steps,
            pending: None,
            names: 0,
            removed_nodes: BTreeSet::new(),
            removed_members: BTreeSet::new(),
        }
    }

    /// Advances by one step: may request a change, and follows the membership.
    pub(crate) fn step(
        &mut self,
        cluster: &mut Cluster,
        counts: &mut Counts,
        journal: &mut Journal,
        config: impl Fn(&mut ServerConfig),
    ) {
        self.receive(cluster, counts, journal);
        if self.pending.is_none() && self.random.chance(1, self.interval_steps) {
            self.request_change(cluster);
        }
        self.follow_membership(cluster, counts, config);
    }

    /// Receives the response to the pending change, or times it out.
    fn receive(&mut self, cluster: &Cluster, counts: &mut Counts, journal: &mut Journal) {
        let Some(pending) = &mut self.pending else { return };
        let result = poll_once(&mut pending.response);
        if result.is_none() && cluster.now < pending.deadline {
            return;
        }
        let PendingChange { description, member, .. } = pending;
        let is_promotion = description.starts_with("promote");
        counts.promoted += u64::from(is_promotion && matches!(result, Some(Ok(()))));
        journal.note(cluster.now, || format!("{member}: operator: {description}: {result:?}"));
        self.pending = None;
    }

    /// Drops a request to a stopped member. Its future would keep the member and its files open.
    pub(crate) fn disconnect(&mut self, id: MemberId, now: Duration, journal: &mut Journal) {
        let lost = self.pending.take_if(|pending| pending.member == id);
        if let Some(PendingChange { description, member, .. }) = lost {
            journal.note(now, || format!("{member}: operator: {description}: connection lost"));
        }
    }

    /// Requests a random change from a random member.
    fn request_change(&mut self, cluster: &Cluster) {
        let servers: Vec<&Server> = cluster.servers().collect();
        let position = self.random.position(servers.len().max(1));
        let Some(&server) = servers.get(position) else { return };
        let members = server.membership();
        let (count, server) = (members.members().count(), server.clone());
        let member = server.local();
        let (description, response) = match self.random.below(5) {
            0 if count < MEMBERS_MAX => self.add(server),
            1 => promote(server, &members),
            2 | 3 => self.change_users_and_roles(server),
            _ => self.remove(server, &members),
        };
        let deadline = cluster.now + TIMEOUT;
        self.pending = Some(PendingChange { description, member, deadline, response });
    }

    /// Adds a voter or a learner.
    fn add(&mut self, server: Server) -> (String, ResponseFuture<()>) {
        self.names += 1;
        let (url, is_learner) = (peer_url(&format!("n{}", self.names)), self.random.chance(2, 3));
        let description = format!("add {url}{}", if is_learner { ", a learner" } else { "" });
        let add = pb::MemberAddRequest { peer_urls: vec![url], is_learner };
        (description, Box::pin(async move { server.member_add(&anonymous(), add).await.map(drop) }))
    }

    /// Removes a random member.
    fn remove(&mut self, server: Server, members: &Membership) -> (String, ResponseFuture<()>) {
        let ids: Vec<_> = members.ids().collect();
        let id = self.random.pick_any(&ids).unwrap_or_default();
        // Never removes one of two voters: if the other one were down and missed the conf change,
        // it would wait for a quorum of two forever. Id 0 names no member and is refused.
        let is_needed = !members.is_learner(id) && members.voters().count() <= 2;
        let remove = pb::MemberRemoveRequest { id: if is_needed { 0 } else { id.0 } };
        let description = format!("remove {id}");
        (
            description,
            Box::pin(async move { server.member_remove(&anonymous(), remove).await.map(drop) }),
        )
    }

    /// Adds, deletes or grants a user or a role.
    fn change_users_and_roles(&mut self, server: Server) -> (String, ResponseFuture<()>) {
        let user = format!("user-{}", self.random.below(NAMES));
        let role = format!("role-{}", self.random.below(NAMES));
        let credentials = anonymous();
        match self.random.below(6) {
            0 => (format!("add {user}"), Box::pin(async move { add_user(&server, user).await })),
            1 => {
                let delete = pb::AuthUserDeleteRequest { name: user.clone() };
                let response =
                    async move { server.user_delete(&credentials, delete).await.map(drop) };
                (format!("delete {user}"), Box::pin(response))
            }
            2 => {
                let add = pb::AuthRoleAddRequest { name: role.clone() };
                let response = async move { server.role_add(&credentials, add).await.map(drop) };
                (format!("add {role}"), Box::pin(response))
            }
            3 => {
                let delete = pb::AuthRoleDeleteRequest { role: role.clone() };
                let response =
                    async move { server.role_delete(&credentials, delete).await.map(drop) };
                (format!("delete {role}"), Box::pin(response))
            }
            4 => {
                let description = format!("give {role} to {user}");
                let grant = pb::AuthUserGrantRoleRequest { user, role };
                let response =
                    async move { server.user_grant_role(&credentials, grant).await.map(drop) };
                (description, Box::pin(response))
            }
            _ => {
                let description = format!("let {role} read the keys of {user}");
                let perm = Permission { key: user.into(), ..Permission::default() };
                let grant = pb::AuthRoleGrantPermissionRequest { name: role, perm: Some(perm) };
                let response = async move {
                    server.role_grant_permission(&credentials, grant).await.map(drop)
                };
                (description, Box::pin(response))
            }
        }
    }

    /// Creates nodes for added members and removes those of removed members.
    pub(crate) fn follow_membership(
        &mut self,
        cluster: &mut Cluster,
        counts: &mut Counts,
        config: impl Fn(&mut ServerConfig),
    ) {
        let newest = cluster.servers().max_by_key(|server| server.applied());
        let Some(members) = newest.map(Server::membership) else { return };
        let is_known = |id| cluster.nodes.contains_key(id) || self.removed_nodes.contains(id);
        let missing = members.members().find(|member| !is_known(&member.id));
        if let Some(member) = missing {
            let name = member.raft.peer_urls.first().map(|url| host_of(url)).unwrap_or_default();
            cluster.join(member.id, &name, config);
            cluster.node(member.id).clock_rate = 900 + self.random.below(101);
            counts.joined += 1;
        }
        let removed: Vec<_> =
            cluster.nodes.keys().copied().filter(|id| members.is_removed(*id)).collect();
        for id in removed {
            // A removed member stops by itself once it learns of its removal, which may never
            // happen.
            if !cluster.nodes[&id].is_running() || self.random.chance(1, 200) {
                self.remove_node(cluster, id);
                counts.removed += 1;
            }
        }
    }

    /// Records that a member has stopped because it was removed. Its node stays until another
    /// member reports the removal.
    pub(crate) fn note_removed(&mut self, id: MemberId) {
        self.removed_members.insert(id);
    }

    /// Returns whether a member has stopped because it was removed, and still has its node.
    pub(crate) fn is_removed(&self, id: MemberId) -> bool {
        self.removed_members.contains(&id)
    }

    /// Removes a node.
    fn remove_node(&mut self, cluster: &mut Cluster, id: MemberId) {
        self.removed_nodes.insert(id);
        self.removed_members.remove(&id);
        self.pending.take_if(|pending| pending.member == id);
        let network = cluster.network.clone();
        cluster.nodes.remove(&id).into_iter().for_each(|mut node| node.kill(&network));
    }
}

/// Adds a user without a password, since a hash is slow and random.
async fn add_user(server: &Server, name: String) -> Result<(), Error> {
    let options = Some(UserAddOptions { no_password: true });
    let add = pb::AuthUserAddRequest { name, options, ..pb::AuthUserAddRequest::default() };
    server.user_add(&anonymous(), add).await.map(drop)
}

/// Promotes the first learner, or requests the promotion of an unknown member if there is none.
fn promote(server: Server, members: &Membership) -> (String, ResponseFuture<()>) {
    let learner = members.ids().find(|id| members.is_learner(*id)).unwrap_or_default();
    let promote = pb::MemberPromoteRequest { id: learner.0 };
    let description = format!("promote {learner}");
    (
        description,
        Box::pin(async move { server.member_promote(&anonymous(), promote).await.map(drop) }),
    )
}

/// Returns the host of `http://host:2380`.
fn host_of(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches(":2380").to_owned()
}
