//! What stands between a request and the state: alarms, permissions, the quota.
//!
//! In etcd's order: what an alarm forbids is refused before anything else is asked; then whether the user may; and only then, while it is carried
//! out, whether there is space. A request that finds no space is carried out nevertheless, because other members may have had some, and
//! reports that it did not.

use auth::AuthInfo;
use membership::quota;
use proto::etcdserverpb::{AlarmType, InternalRaftRequest};

use crate::apply::Refusal;
use crate::state::{Attached, StateMachine};

impl StateMachine {
    /// Whether a request may be carried out at all.
    pub(super) fn check(&self, request: &InternalRaftRequest) -> Result<(), Refusal> {
        if changes_or_reads(request) && self.alarms.is_active(AlarmType::Corrupt) {
            return Err(Refusal::Corrupt);
        }
        if cost(request).is_some_and(|cost| cost > 0) && self.alarms.is_active(AlarmType::Nospace) {
            return Err(Refusal::NoSpace);
        }
        let caller = AuthInfo::from_header(request.header.as_ref());
        Ok(self.auth.check_apply(&caller, request, &Attached(&self.lessor))?)
    }

    /// Whether there is space for it.
    pub(super) fn has_space_for(&self, request: &InternalRaftRequest) -> bool {
        cost(request).is_none_or(|cost| self.kept.quota.is_available(self.backend.size(), cost))
    }
}

/// What members that hold different things must not answer any more.
fn changes_or_reads(request: &InternalRaftRequest) -> bool {
    request.range.is_some()
        || request.put.is_some()
        || request.delete_range.is_some()
        || request.txn.is_some()
        || request.compaction.is_some()
        || request.lease_grant.is_some()
        || request.lease_revoke.is_some()
}

/// What a request takes of the quota; none if it takes nothing by its kind.
fn cost(request: &InternalRaftRequest) -> Option<u64> {
    let InternalRaftRequest { put, txn, lease_grant, .. } = request;
    let put = put.as_ref().map(quota::put);
    let txn = || txn.as_ref().map(quota::txn);
    put.or_else(txn).or_else(|| lease_grant.as_ref().map(|_| quota::LEASE_GRANT))
}
