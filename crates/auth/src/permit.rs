//! Who may do what.
//!
//! | request | needs, while authentication is enabled |
//! | --- | --- |
//! | range, watch, compare | read on all of the range |
//! | put | write on the key; read too for the previous value; write on every key of the lease it attaches |
//! | delete | write on all of the range; read too for the previous values |
//! | txn | all that its compares and the operations of both branches need, at every depth |
//! | lease revoke, keep-alive | write on every key of the lease |
//! | lease time-to-live with keys, list of leases | read on every key of the lease; of all leases |
//! | lease grant, time-to-live without keys, member list, status, alarm list | any user |
//! | a user's own roles, a role that the user holds | that user |
//! | changes of users and roles, their lists, other users and roles, compaction, hashes, snapshot, defragmentation, move of leader, downgrade, alarms, membership | the role root |
//! | authenticate, auth status | nobody |
//!
//! The role root has all of it. Whatever looks at keys also wants the revision of users and roles that the request was authenticated at
//! to be the one that is now; the role root alone is looked up by name, as it is now.
//!
//! Requests that go through the log are checked as they are applied ([`AuthStore::check_apply`]), the others as they come in. Both ask here.

use bytes::Bytes;
use proto::command::Command;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    AlarmRequest, DeleteRangeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp,
    TxnRequest, WatchCreateRequest,
};
use types::LeaseId;

use crate::error::Error;
use crate::info::AuthInfo;
use crate::state::{Account, State};
use crate::store::AuthStore;

/// The keys that are attached to leases: whoever keeps leases tells.
///
/// It is asked while users and roles are locked for reading, so it must not ask for them in turn.
pub trait LeaseKeys {
    /// The keys of a lease; none if there is no such lease.
    fn keys_of(&self, id: LeaseId) -> Vec<Bytes>;
}

impl AuthStore {
    /// Checks a command of the log when it is applied.
    pub fn check_apply(
        &self,
        caller: &AuthInfo,
        command: &Command,
        leases: &dyn LeaseKeys,
    ) -> Result<(), Error> {
        let state = self.state();
        let check = Check { state: &state, caller, leases };
        match command {
            Command::Range(range) => check.read(&range.key, &range.range_end),
            Command::Put(put) => check.put(put),
            Command::DeleteRange(delete) => check.delete_range(delete),
            Command::Txn(txn) => check.txn(txn),
            Command::LeaseRevoke(revoke) => check.lease_writes(LeaseId(revoke.id)),
            Command::AuthUserGet(get) => check.user_get(&get.name),
            Command::AuthRoleGet(get) => check.role_get(&get.role),
            Command::AuthEnable(_)
            | Command::AuthDisable(_)
            | Command::AuthUserAdd(_)
            | Command::AuthUserDelete(_)
            | Command::AuthUserChangePassword(_)
            | Command::AuthUserGrantRole(_)
            | Command::AuthUserRevokeRole(_)
            | Command::AuthUserList(_)
            | Command::AuthRoleAdd(_)
            | Command::AuthRoleDelete(_)
            | Command::AuthRoleList(_)
            | Command::AuthRoleGrantPermission(_)
            | Command::AuthRoleRevokePermission(_) => check.admin(),
            // The member that proposed these has checked its client, or they come from a member.
            Command::Compaction(_)
            | Command::LeaseGrant(_)
            | Command::LeaseCheckpoint(_)
            | Command::Alarm(_)
            | Command::Authenticate(_)
            | Command::AuthStatus(_)
            | Command::ClusterVersionSet(_)
            | Command::ClusterMemberAttrSet(_)
            | Command::DowngradeInfoSet(_)
            | Command::DowngradeVersionTest(_) => Ok(()),
        }
    }

    /// Whether a user may read a range.
    pub fn check_range(&self, caller: &AuthInfo, request: &RangeRequest) -> Result<(), Error> {
        self.check(caller, |check| check.read(&request.key, &request.range_end))
    }

    /// Whether a user may have a transaction: one that only reads is not applied, and is checked as it comes in.
    pub fn check_txn(
        &self,
        caller: &AuthInfo,
        request: &TxnRequest,
        leases: &dyn LeaseKeys,
    ) -> Result<(), Error> {
        let state = self.state();
        Check { state: &state, caller, leases }.txn(request)
    }

    /// Whether a user may watch. A watch without an end is one of a single key; one without a key begins at the first.
    pub fn check_watch(
        &self,
        caller: &AuthInfo,
        request: &WatchCreateRequest,
    ) -> Result<(), Error> {
        const FIRST: &[u8] = &[0];
        let key = if request.key.is_empty() { FIRST } else { &request.key[..] };
        self.check(caller, |check| check.read(key, &request.range_end))
    }

    /// Whether a user may keep a lease alive. None is a caller that did not say who it is.
    pub fn check_lease_renew(
        &self,
        caller: Option<&AuthInfo>,
        id: LeaseId,
        leases: &dyn LeaseKeys,
    ) -> Result<(), Error> {
        self.check_some(caller, leases, |check| check.lease_writes(id))
    }

    /// Whether a user may ask for a lease, and for its keys if it does.
    ///
    /// Asking for keys is only answered if the revision returned is still the current one after they were read
    /// ([`check_revision`](Self::check_revision)).
    pub fn check_lease_time_to_live(
        &self,
        caller: Option<&AuthInfo>,
        request: &LeaseTimeToLiveRequest,
        leases: &dyn LeaseKeys,
    ) -> Result<u64, Error> {
        self.check_some(caller, leases, |check| {
            if request.keys {
                check.lease_reads(LeaseId(request.id))?;
            }
            Ok(check.state.revision)
        })
    }

    /// Whether a user may list leases: these. Users and roles may change between one lease and the next; if they did, it has to be asked again.
    pub fn check_lease_leases(
        &self,
        caller: Option<&AuthInfo>,
        ids: impl IntoIterator<Item = LeaseId>,
        leases: &dyn LeaseKeys,
    ) -> Result<(), Error> {
        let revision = self.revision();
        self.check_some(caller, leases, |_| Ok(()))?;
        for id in ids {
            self.check_some(caller, leases, |check| check.lease_reads(id))?;
        }
        self.check_revision(revision)
    }

    /// Whether a user holds the role root.
    pub fn check_admin(&self, caller: Option<&AuthInfo>) -> Result<(), Error> {
        let state = self.state();
        let nobody = AuthInfo::default();
        let caller = caller.unwrap_or(&nobody);
        Check { state: &state, caller, leases: &NoLeases }.admin()
    }

    /// Whether there is a user at all. As in etcd, what the name stands for is not looked up.
    pub fn check_any_user(&self, caller: Option<&AuthInfo>) -> Result<(), Error> {
        allow(!self.enabled() || caller.is_some(), Error::UserEmpty)
    }

    /// Whether a user may do this to alarms: listing them is for any user.
    pub fn check_alarm(
        &self,
        caller: Option<&AuthInfo>,
        request: &AlarmRequest,
    ) -> Result<(), Error> {
        match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => self.check_any_user(caller),
            _ => self.check_admin(caller),
        }
    }

    /// Whether what was read since a check may be given out: nothing has changed meanwhile.
    pub fn check_unchanged(&self, caller: &AuthInfo) -> Result<(), Error> {
        allow(caller.revision == 0 || caller.revision == self.revision(), Error::AuthOldRevision)
    }

    /// Likewise, for a revision that a check returned.
    pub fn check_revision(&self, revision: u64) -> Result<(), Error> {
        allow(!self.enabled() || revision == self.revision(), Error::AuthOldRevision)
    }

    /// Checks what needs no leases.
    fn check<T>(
        &self,
        caller: &AuthInfo,
        ask: impl FnOnce(&Check<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let state = self.state();
        ask(&Check { state: &state, caller, leases: &NoLeases })
    }

    /// Checks what only a user may do, if users are asked for.
    fn check_some<T: Default>(
        &self,
        caller: Option<&AuthInfo>,
        leases: &dyn LeaseKeys,
        ask: impl FnOnce(&Check<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let state = self.state();
        match caller {
            _ if !state.enabled => Ok(T::default()),
            None => Err(Error::UserEmpty),
            Some(caller) => ask(&Check { state: &state, caller, leases }),
        }
    }
}

/// A question: may this caller do that, as things are?
struct Check<'a> {
    state: &'a State,
    caller: &'a AuthInfo,
    leases: &'a dyn LeaseKeys,
}

impl Check<'_> {
    fn put(&self, put: &PutRequest) -> Result<(), Error> {
        self.write(&put.key, &[])?;
        // Who could not revoke the lease shall not hang keys on it either.
        if let Some(lease) = LeaseId::from_wire(put.lease) {
            self.lease_writes(lease)?;
        }
        if put.prev_kv { self.read(&put.key, &[]) } else { Ok(()) }
    }

    fn delete_range(&self, delete: &DeleteRangeRequest) -> Result<(), Error> {
        self.write(&delete.key, &delete.range_end)?;
        if delete.prev_kv { self.read(&delete.key, &delete.range_end) } else { Ok(()) }
    }

    /// A transaction, and those inside it. With a list rather than by recursion: how deep they go is not up to us.
    fn txn(&self, txn: &TxnRequest) -> Result<(), Error> {
        let mut waiting = vec![txn];
        while let Some(txn) = waiting.pop() {
            for compare in &txn.compare {
                self.read(&compare.key, &compare.range_end)?;
            }
            for op in txn.success.iter().chain(&txn.failure) {
                waiting.extend(self.op(op)?);
            }
        }
        Ok(())
    }

    /// An operation of a transaction. One that is a transaction is returned, to be checked in turn.
    fn op<'r>(&self, op: &'r RequestOp) -> Result<Option<&'r TxnRequest>, Error> {
        match &op.request {
            Some(Request::RequestRange(range)) => self.read(&range.key, &range.range_end)?,
            Some(Request::RequestPut(put)) => self.put(put)?,
            Some(Request::RequestDeleteRange(delete)) => self.delete_range(delete)?,
            Some(Request::RequestTxn(txn)) => return Ok(Some(txn)),
            None => {}
        }
        Ok(None)
    }

    fn lease_writes(&self, id: LeaseId) -> Result<(), Error> {
        self.lease_keys(id, |key| self.write(key, &[]))
    }

    fn lease_reads(&self, id: LeaseId) -> Result<(), Error> {
        self.lease_keys(id, |key| self.read(key, &[]))
    }

    /// Asks for every key of a lease, unless the role root answers for all.
    fn lease_keys(
        &self,
        id: LeaseId,
        ask: impl Fn(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.admin().is_ok() {
            return Ok(());
        }
        self.leases.keys_of(id).iter().try_for_each(|key| ask(key))
    }

    fn read(&self, key: &[u8], range_end: &[u8]) -> Result<(), Error> {
        self.key_access(|account| account.granted.read.contain(key, range_end))
    }

    fn write(&self, key: &[u8], range_end: &[u8]) -> Result<(), Error> {
        self.key_access(|account| account.granted.write.contain(key, range_end))
    }

    /// What every access to keys needs first: a user, at the revision that is now.
    fn key_access(&self, granted: impl FnOnce(&Account) -> bool) -> Result<(), Error> {
        if !self.state.enabled {
            return Ok(());
        }
        if self.caller.revision == 0 {
            return Err(Error::UserEmpty);
        }
        if self.caller.revision < self.state.revision {
            return Err(Error::AuthOldRevision);
        }
        let account = self.account().ok_or(Error::PermissionDenied)?;
        allow(account.is_root() || granted(account), Error::PermissionDenied)
    }

    /// A user may read its own roles.
    fn user_get(&self, name: &str) -> Result<(), Error> {
        self.admin().or_else(|error| allow(name == self.caller.username, error))
    }

    /// A user may read the roles that it holds.
    fn role_get(&self, role: &str) -> Result<(), Error> {
        let is_held = || {
            self.state
                .user(&self.caller.username)
                .is_some_and(|user| user.roles.iter().any(|it| it == role))
        };
        self.admin().or_else(|error| allow(is_held(), error))
    }

    fn admin(&self) -> Result<(), Error> {
        if !self.state.enabled {
            return Ok(());
        }
        if self.caller.username.is_empty() {
            return Err(Error::UserEmpty);
        }
        let account = self.account().ok_or(Error::UserNotFound)?;
        allow(account.is_root(), Error::PermissionDenied)
    }

    fn account(&self) -> Option<&Account> {
        self.state.users.get(self.caller.username.as_bytes())
    }
}

/// Where no lease is asked for.
struct NoLeases;

impl LeaseKeys for NoLeases {
    fn keys_of(&self, _: LeaseId) -> Vec<Bytes> {
        Vec::new()
    }
}

fn allow(condition: bool, otherwise: Error) -> Result<(), Error> {
    if condition { Ok(()) } else { Err(otherwise) }
}
