//! Local state for the client API: answered from what this member has applied, without consensus.

use std::io;
use std::time::Duration;

use backend::FileSnapshot;
use backend::schema::version;
use bytes::Bytes;
use mvcc::watch::{HistoryError, Notify, Response, Stream};
use proto::etcdserverpb as pb;

use super::Credentials;
use crate::error::Error;
use crate::server::Server;

impl Server {
    /// Returns the current revision of the store.
    pub fn current_revision(&self) -> i64 {
        self.state().store.current()
    }

    /// Returns the number of keys in a range, which the index knows without visiting them.
    pub fn count_keys(&self, key: Bytes, range_end: Bytes) -> usize {
        let count = pb::RangeRequest { key, range_end, count_only: true, ..Default::default() };
        let found = self.state().store.range(&count);
        found.ok().and_then(|found| usize::try_from(found.count).ok()).unwrap_or(usize::MAX)
    }

    /// Opens a watch stream. `notify` is called when it has a response; its progress notifications
    /// are delayed by `jitter`.
    pub fn watch_stream(&self, notify: Notify, jitter: Duration) -> Stream {
        self.state().store.watch_stream(notify, self.now(), jitter)
    }

    /// Returns the next response of a watch stream, if there is one.
    ///
    /// # Errors
    /// The database is damaged. The member has to stop.
    pub fn next_watch_response(
        &self,
        stream: &mut Stream,
    ) -> Result<Option<Response>, HistoryError> {
        // The state is loaded each time, because a snapshot replaces it.
        stream.next(&self.state().store)
    }

    /// Checks that the caller may watch a range.
    ///
    /// # Errors
    /// The caller is unknown or lacks the permission.
    pub async fn check_watch(
        &self,
        credentials: &Credentials,
        request: &pb::WatchCreateRequest,
    ) -> Result<(), Error> {
        let caller = self.auth_info(credentials).await?.unwrap_or_default();
        Ok(self.state().auth.check_watch(&caller, request)?)
    }

    /// Reports whether auth is enabled.
    pub fn auth_enabled(&self) -> bool {
        self.state().auth.enabled()
    }

    /// Commits pending writes and opens a snapshot of the database. Returns it with the stored
    /// storage version, or an empty text if none is stored.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub fn snapshot_database(&self) -> io::Result<(FileSnapshot, String)> {
        let backend = self.state().backend.clone();
        let stored = version::storage(&backend.view()).map_err(io::Error::other)?;
        let version = stored.map(|version| version.to_string()).unwrap_or_default();
        Ok((backend.snapshot().map_err(io::Error::other)?, version))
    }

    /// Returns the active alarms of the cluster.
    pub fn active_alarms(&self) -> Vec<pb::AlarmMember> {
        self.state().alarms.get(pb::AlarmType::None.into())
    }

    /// Returns the cluster version, if it is decided: `3.7.0`.
    pub fn decided_cluster_version(&self) -> Option<String> {
        self.state().cluster.now().version().map(|version| version.to_string())
    }

    /// Returns the storage version, if it can be detected.
    pub fn detected_storage_version(&self) -> Option<String> {
        version::detect(&self.state().backend.view()).ok().map(|version| version.to_string())
    }
}
