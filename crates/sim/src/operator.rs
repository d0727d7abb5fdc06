//! The operator: adds, promotes and removes members, and provides and removes their nodes. It also
//! changes users and roles, which must be equal on all members.
//!
//! The outcome of a change is not always known, so nodes follow the membership that members report.

use std::collections::BTreeSet;
use std::time::Duration;

use env::SeededRandom;
use membership::Membership;
use proto::authpb::{Permission, UserAddOptions};
use proto::etcdserverpb as pb;
use server::{Error, Server, ServerConfig};
use types::MemberId;

use crate::client::{Answer, anonymous};
use crate::cluster::{Cluster, peer_url};
use crate::journal::Journal;
use crate::poll;
use crate::scenario::Counts;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum number of members.
const MEMBERS_MAX: usize = 5;
/// Number of user and role names: few, so that some exist and some do not.
const NAMES: u64 = 3;

/// Changes the membership, and users and roles.
pub(crate) struct Operator {
    random: SeededRandom,
    /// A change occurs once in this many steps, on average.
    every: u64,
    asked: Option<Asked>,
    named: u32,
    /// Members whose nodes were removed. Members that are behind may still list them.
    gone: BTreeSet<MemberId>,
    /// Members that have stopped as removed, before any other member reports it.
    left: BTreeSet<MemberId>,
}

struct Asked {
    what: String,
    of: MemberId,
    until: Duration,
    answer: Answer<()>,
}

impl Operator {
    pub(crate) fn new(seed: u64) -> Operator {
        let mut random = SeededRandom::new(seed);
        // Some clusters keep their members.
        let every = if random.chance(1, 3) { u64::MAX } else { 60 + random.below(240) };
        let (gone, left) = (BTreeSet::new(), BTreeSet::new());
        Operator { random, every, asked: None, named: 0, gone, left }
    }

    /// Advances by one step: may request a change, and follows the membership.
    pub(crate) fn step(
        &mut self,
        cluster: &mut Cluster,
        counts: &mut Counts,
        journal: &mut Journal,
        config: impl Fn(&mut ServerConfig),
    ) {
        self.listen(cluster, counts, journal);
        if self.asked.is_none() && self.random.chance(1, self.every) {
            self.ask(cluster);
        }
        self.look_after(cluster, counts, config);
    }

    fn listen(&mut self, cluster: &Cluster, counts: &mut Counts, journal: &mut Journal) {
        let Some(asked) = &mut self.asked else { return };
        let answer = poll(&mut asked.answer);
        if answer.is_none() && cluster.now < asked.until {
            return;
        }
        let (what, of) = (&asked.what, asked.of);
        let is_promotion = what.starts_with("promote");
        counts.promoted += u64::from(is_promotion && matches!(answer, Some(Ok(()))));
        journal.note(cluster.now, || format!("{of}: operator: {what}: {answer:?}"));
        self.asked = None;
    }

    /// Forgets a request to a stopped member. Its future would keep the member and its files open.
    pub(crate) fn lose(&mut self, id: MemberId, now: Duration, journal: &mut Journal) {
        if let Some(Asked { what, of, .. }) = self.asked.take_if(|asked| asked.of == id) {
            journal.note(now, || format!("{of}: operator: {what}: never answered"));
        }
    }

    fn ask(&mut self, cluster: &Cluster) {
        let servers: Vec<&Server> = cluster.servers().collect();
        let place = usize::try_from(self.random.below(servers.len().max(1) as u64)).unwrap_or(0);
        let Some(server) = servers.get(place) else { return };
        let members = server.state().cluster.now();
        let (count, server) = (members.members().count(), (*server).clone());
        let of = server.local();
        let (what, answer) = match self.random.below(5) {
            0 if count < MEMBERS_MAX => self.add(server),
            1 => promote(server, &members),
            2 | 3 => self.keep_accounts(server),
            _ => self.remove(server, &members),
        };
        let until = cluster.now + TIMEOUT;
        self.asked = Some(Asked { what, of, until, answer });
    }

    fn add(&mut self, server: Server) -> (String, Answer<()>) {
        self.named += 1;
        let (url, is_learner) = (peer_url(&format!("n{}", self.named)), self.random.chance(2, 3));
        let what = format!("add {url}{}", if is_learner { ", a learner" } else { "" });
        let add = pb::MemberAddRequest { peer_urls: vec![url], is_learner };
        (what, Box::pin(async move { server.member_add(&anonymous(), add).await.map(drop) }))
    }

    fn remove(&mut self, server: Server, members: &Membership) -> (String, Answer<()>) {
        let ids: Vec<_> = members.ids().collect();
        let place = usize::try_from(self.random.below(ids.len().max(1) as u64)).unwrap_or(0);
        let id = ids.get(place).copied().unwrap_or_default();
        // Never removes one of two voters: if the other were down, it might not know that it is the
        // only voter, and no member could tell it.
        let is_needed = !members.is_learner(id) && members.voters().count() <= 2;
        let remove = pb::MemberRemoveRequest { id: if is_needed { 0 } else { id.0 } };
        let what = format!("remove {id}");
        (what, Box::pin(async move { server.member_remove(&anonymous(), remove).await.map(drop) }))
    }

    /// Adds, deletes or grants a user or a role.
    fn keep_accounts(&mut self, server: Server) -> (String, Answer<()>) {
        let user = format!("user-{}", self.random.below(NAMES));
        let role = format!("role-{}", self.random.below(NAMES));
        let who = anonymous();
        match self.random.below(6) {
            0 => (format!("add {user}"), Box::pin(async move { add_user(&server, user).await })),
            1 => {
                let delete = pb::AuthUserDeleteRequest { name: user.clone() };
                let answer = async move { server.user_delete(&who, delete).await.map(drop) };
                (format!("delete {user}"), Box::pin(answer))
            }
            2 => {
                let add = pb::AuthRoleAddRequest { name: role.clone() };
                let answer = async move { server.role_add(&who, add).await.map(drop) };
                (format!("add {role}"), Box::pin(answer))
            }
            3 => {
                let delete = pb::AuthRoleDeleteRequest { role: role.clone() };
                let answer = async move { server.role_delete(&who, delete).await.map(drop) };
                (format!("delete {role}"), Box::pin(answer))
            }
            4 => {
                let what = format!("give {role} to {user}");
                let grant = pb::AuthUserGrantRoleRequest { user, role };
                let answer = async move { server.user_grant_role(&who, grant).await.map(drop) };
                (what, Box::pin(answer))
            }
            _ => {
                let what = format!("let {role} read the keys of {user}");
                let perm = Permission { key: user.into(), ..Permission::default() };
                let grant = pb::AuthRoleGrantPermissionRequest { name: role, perm: Some(perm) };
                let answer =
                    async move { server.role_grant_permission(&who, grant).await.map(drop) };
                (what, Box::pin(answer))
            }
        }
    }

    /// Creates nodes for added members and removes those of removed members.
    pub(crate) fn look_after(
        &mut self,
        cluster: &mut Cluster,
        counts: &mut Counts,
        config: impl Fn(&mut ServerConfig),
    ) {
        let newest = cluster.servers().max_by_key(|server| server.applied());
        let Some(members) = newest.map(|server| server.state().cluster.now()) else { return };
        let is_known = |id| cluster.nodes.contains_key(id) || self.gone.contains(id);
        let missing = members.members().find(|member| !is_known(&member.id));
        if let Some(member) = missing {
            let name = member.raft.peer_urls.first().map(|url| name_in(url)).unwrap_or_default();
            cluster.join(member.id, &name, config);
            cluster.node(member.id).pace = 900 + self.random.below(101);
            counts.joined += 1;
        }
        let gone: Vec<_> =
            cluster.nodes.keys().copied().filter(|id| members.is_removed(*id)).collect();
        for id in gone {
            // A removed member stops by itself if it can; otherwise its node is removed.
            if !cluster.nodes[&id].is_running() || self.random.chance(1, 200) {
                self.forget(cluster, id);
                counts.removed += 1;
            }
        }
    }

    /// Records that a member has stopped as removed. Its node stays until another member confirms
    /// it.
    pub(crate) fn leave(&mut self, id: MemberId) {
        self.left.insert(id);
    }

    /// Whether a member has stopped as removed, and no other member has confirmed it.
    pub(crate) fn has_left(&self, id: MemberId) -> bool {
        self.left.contains(&id)
    }

    /// Removes a node.
    fn forget(&mut self, cluster: &mut Cluster, id: MemberId) {
        self.gone.insert(id);
        self.left.remove(&id);
        self.asked.take_if(|asked| asked.of == id);
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

fn promote(server: Server, members: &Membership) -> (String, Answer<()>) {
    let learner = members.ids().find(|id| members.is_learner(*id)).unwrap_or_default();
    let promote = pb::MemberPromoteRequest { id: learner.0 };
    let what = format!("promote {learner}");
    (what, Box::pin(async move { server.member_promote(&anonymous(), promote).await.map(drop) }))
}

/// Returns the name in `http://name:2380`.
fn name_in(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches(":2380").to_owned()
}
