//! Conf changes while the cluster runs: members join empty, are promoted, demoted and removed, one
//! by one or several at once through joint configurations.

use raft::{
    AnyConfChange, ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType,
    ConfChangeV2, ConfState,
};
use simkit::RandomExt as _;
use types::MemberId;

use crate::cluster::Cluster;
use crate::invariants::Check;
use crate::scenario::MAX_MEMBERS;

/// The maximum number of voters.
const MAX_VOTERS: usize = 7;

impl Cluster {
    /// Proposes a conf change that fits the configuration of some member, which may be stale.
    pub(crate) fn change_membership(&mut self) -> Check {
        let running = self.running();
        let by_leader = self.sim.random.per_mille(800);
        let led = self.leader().filter(|_| by_leader);
        let Some(proposer) = led.or_else(|| self.sim.random.pick_any(&running)) else {
            return Ok(());
        };
        let conf = self.nodes[&proposer].live.as_ref().map(|live| live.conf.clone());
        let Some(change) = self.draw_change(&conf.unwrap_or_default())? else {
            return Ok(());
        };
        self.with_member(proposer, |node, sim| node.propose_change(sim, change))
    }

    fn draw_change(&mut self, conf: &ConfState) -> Check<Option<AnyConfChange>> {
        let joint = !conf.voters_outgoing.is_empty();
        if joint && self.sim.random.per_mille(700) {
            // An empty change leaves the joint configuration.
            return Ok(Some(ConfChangeV2::default().into()));
        }
        let count = self.sim.random.pick(&[1, 1, 1, 2, 3]);
        let mut changes = Vec::new();
        let mut voters = conf.voters.clone();
        for _ in 0..count {
            if let Some(change) = self.draw_single(conf, &mut voters)? {
                changes.push(change);
            }
        }
        Ok((!changes.is_empty()).then(|| self.encode_changes(changes)))
    }

    /// Draws one change; `voters` are the voters after the preceding changes.
    fn draw_single(
        &mut self,
        conf: &ConfState,
        voters: &mut Vec<MemberId>,
    ) -> Check<Option<ConfChangeSingle>> {
        use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode, UpdateNode};
        let random = &mut self.sim.random;
        let kind =
            random.pick(&[AddNode, AddNode, AddLearnerNode, RemoveNode, RemoveNode, UpdateNode]);
        let node_id = match kind {
            AddNode => match random.pick_any(&conf.learners).filter(|_| random.flip()) {
                Some(learner) => Some(learner),
                None if voters.len() < MAX_VOTERS => self.draw_new_member()?,
                None => None,
            },
            // A voter becomes a learner, or a new learner joins.
            AddLearnerNode if voters.len() > 1 && random.flip() => random.pick_any(voters),
            AddLearnerNode => self.draw_new_member()?,
            RemoveNode if random.flip() => random.pick_any(&conf.learners),
            // Occasionally the last voter, which every member must refuse alike.
            RemoveNode if voters.len() > 1 || random.per_mille(200) => random.pick_any(voters),
            RemoveNode => None,
            UpdateNode => random.pick_any(voters),
        };
        let Some(node_id) = node_id else { return Ok(None) };
        voters.retain(|&id| id != node_id || kind == UpdateNode);
        if kind == AddNode {
            voters.push(node_id);
        }
        Ok(Some(ConfChangeSingle { kind, node_id }))
    }

    /// Returns a member that has never been in a configuration. It starts before the others know of
    /// it.
    fn draw_new_member(&mut self) -> Check<Option<MemberId>> {
        // A member started for a lost conf change may still be unused.
        let was_member = |id: &MemberId| self.sim.invariants.configurations.was_member(*id);
        let waiting: Vec<_> = self.nodes.keys().copied().filter(|id| !was_member(id)).collect();
        if self.sim.random.per_mille(800)
            && let Some(member) = self.sim.random.pick_any(&waiting)
        {
            return Ok(Some(member));
        }
        if self.nodes.len() as u64 >= MAX_MEMBERS {
            return Ok(None);
        }
        let member = self.add_member();
        self.start(member)?;
        self.sim.totals.joined += 1;
        Ok(Some(member))
    }

    /// Encodes changes: some single ones in the older encoding, all with any transition.
    fn encode_changes(&mut self, changes: Vec<ConfChangeSingle>) -> AnyConfChange {
        use ConfChangeTransition::{Auto, JointExplicit, JointImplicit};
        let random = &mut self.sim.random;
        if let [ConfChangeSingle { kind, node_id }] = changes[..]
            && random.flip()
        {
            return ConfChange { kind, node_id, ..ConfChange::default() }.into();
        }
        let transition = random.pick(&[Auto, Auto, Auto, JointImplicit, JointExplicit]);
        ConfChangeV2 { transition, changes, ..ConfChangeV2::default() }.into()
    }
}
