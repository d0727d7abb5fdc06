//! Permission checks.
//!
//! | request | required while authentication is enabled |
//! | --- | --- |
//! | range, watch, compare | read on all of the range |
//! | put | write on the key; read for the previous value; write on every key of its lease |
//! | delete | write on all of the range; read for the previous values |
//! | txn | everything its compares and both branches require, at every depth |
//! | lease revoke, keep-alive | write on every key of the lease |
//! | lease time-to-live with keys; list of leases | read on every key of the lease; of all leases |
//! | lease grant, time-to-live without keys, member list, status, alarm list | any user |
//! | a user's own roles, a role that the user holds | that user |
//! | other users and roles, their lists and changes | the role root |
//! | compaction, hash, snapshot, defragment, move leader, downgrade | the role root |
//! | alarms, membership | the role root |
//! | authenticate, auth status | nothing |
//!
//! The role root permits everything. Checks on keys also require that the request was authenticated
//! at the current auth revision; checks for the role root look the user up by name instead.
//!
//! Commands of the log are checked when they are applied ([`AuthStore::check_apply`]), all other
//! requests when they arrive.

use bytes::Bytes;
use proto::command::Command;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    AlarmRequest, DeleteRangeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest,
    RequestHeader, RequestOp, TxnRequest, WatchCreateRequest,
};
use types::LeaseId;

use crate::error::Error;
use crate::info::AuthInfo;
use crate::state::{Account, AuthState};
use crate::store::AuthStore;

/// The keys that are attached to leases, as known by the lessor.
///
/// Called while users and roles are locked for reading, so implementations must not call the
/// [`AuthStore`].
pub trait LeaseKeys {
    /// Returns the keys of a lease; empty if the lease does not exist.
    fn keys_of(&self, id: LeaseId) -> Vec<Bytes>;
}

impl AuthStore {
    /// Checks a command of the log when it is applied, for the user in its header.
    pub fn check_entry(
        &self,
        header: Option<&RequestHeader>,
        command: &Command,
        leases: &dyn LeaseKeys,
    ) -> Result<(), Error> {
        self.check_apply(&AuthInfo::from_header(header), command, leases)
    }

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

    /// Checks a range that does not go through the log.
    pub fn check_range(&self, caller: &AuthInfo, request: &RangeRequest) -> Result<(), Error> {
        self.check(caller, |check| check.read(&request.key, &request.range_end))
    }

    /// Checks a read-only transaction, which does not go through the log.
    pub fn check_txn(
        &self,
        caller: &AuthInfo,
        request: &TxnRequest,
        leases: &dyn LeaseKeys,
    ) -> Result<(), Error> {
        let state = self.state();
        Check { state: &state, caller, leases }.txn(request)
    }

    /// Checks a watch. Without an end it watches a single key; without a key it begins at the
    /// first.
    pub fn check_watch(
        &self,
        caller: &AuthInfo,
        request: &WatchCreateRequest,
    ) -> Result<(), Error> {
        const FIRST: &[u8] = &[0];
        let key = if request.key.is_empty() { FIRST } else { &request.key[..] };
        self.check(caller, |check| check.read(key, &request.range_end))
    }

    /// Checks a keep-alive of a lease. `None` is a request without a user.
    pub fn check_lease_renew(
        &self,
        caller: Option<&AuthInfo>,
        id: LeaseId,
        leases: &dyn LeaseKeys,
    ) -> Result<(), Error> {
        self.check_some(caller, leases, |check| check.lease_writes(id))
    }

    /// Checks a query for a lease, and for its keys if the request asks for them.
    ///
    /// Keys may only be returned if the returned auth revision is still current after they were
    /// read ([`check_revision`](Self::check_revision)).
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

    /// Checks a list of leases. Fails with [`Error::AuthOldRevision`] if users or roles change
    /// meanwhile.
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

    /// Checks that the user holds the role root.
    pub fn check_admin(&self, caller: Option<&AuthInfo>) -> Result<(), Error> {
        let state = self.state();
        let no_user = AuthInfo::default();
        let caller = caller.unwrap_or(&no_user);
        Check { state: &state, caller, leases: &NoLeases }.admin()
    }

    /// Checks that the request has a user. Compat: as in etcd, the user need not exist.
    pub fn check_any_user(&self, caller: Option<&AuthInfo>) -> Result<(), Error> {
        allow(!self.enabled() || caller.is_some(), Error::UserEmpty)
    }

    /// Checks a request about alarms: any user may list them.
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

    /// Checks that users and roles have not changed since the caller was authenticated, so that
    /// data read since then may be returned.
    pub fn check_unchanged(&self, caller: &AuthInfo) -> Result<(), Error> {
        allow(caller.revision == 0 || caller.revision == self.revision(), Error::AuthOldRevision)
    }

    /// Checks that an auth revision, returned by another check, is still current.
    pub fn check_revision(&self, revision: u64) -> Result<(), Error> {
        allow(!self.enabled() || revision == self.revision(), Error::AuthOldRevision)
    }

    /// Runs a check that needs no leases.
    fn check<T>(
        &self,
        caller: &AuthInfo,
        ask: impl FnOnce(&Check<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let state = self.state();
        ask(&Check { state: &state, caller, leases: &NoLeases })
    }

    /// Runs a check that requires a user, if authentication is enabled.
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

/// The caller and the state that a check compares.
struct Check<'a> {
    state: &'a AuthState,
    caller: &'a AuthInfo,
    leases: &'a dyn LeaseKeys,
}

impl Check<'_> {
    fn put(&self, put: &PutRequest) -> Result<(), Error> {
        self.write(&put.key, &[])?;
        // A user that may not revoke the lease may not attach keys to it either.
        if let Some(lease) = LeaseId::from_wire(put.lease) {
            self.lease_writes(lease)?;
        }
        if put.prev_kv { self.read(&put.key, &[]) } else { Ok(()) }
    }

    fn delete_range(&self, delete: &DeleteRangeRequest) -> Result<(), Error> {
        self.write(&delete.key, &delete.range_end)?;
        if delete.prev_kv { self.read(&delete.key, &delete.range_end) } else { Ok(()) }
    }

    /// Checks a transaction and those nested in it. A list replaces recursion, because the client
    /// decides the depth.
    fn txn(&self, txn: &TxnRequest) -> Result<(), Error> {
        let mut pending = vec![txn];
        while let Some(txn) = pending.pop() {
            for compare in &txn.compare {
                self.read(&compare.key, &compare.range_end)?;
            }
            for op in txn.success.iter().chain(&txn.failure) {
                pending.extend(self.op(op)?);
            }
        }
        Ok(())
    }

    /// Checks an operation of a transaction. Returns a nested transaction, to be checked later.
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

    /// Checks every key of a lease. The role root permits all of them.
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
        self.key_access(|account| account.permissions.read.contain(key, range_end))
    }

    fn write(&self, key: &[u8], range_end: &[u8]) -> Result<(), Error> {
        self.key_access(|account| account.permissions.write.contain(key, range_end))
    }

    /// Checks the user and the auth revision, then the permission on keys.
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

/// Stands in for the lessor in checks without leases.
struct NoLeases;

impl LeaseKeys for NoLeases {
    fn keys_of(&self, _: LeaseId) -> Vec<Bytes> {
        Vec::new()
    }
}

fn allow(condition: bool, otherwise: Error) -> Result<(), Error> {
    if condition { Ok(()) } else { Err(otherwise) }
}
