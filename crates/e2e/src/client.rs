//! A gRPC client: one connection, the stubs of every service, and helpers for common requests.

use std::time::Duration;

use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, WatchCreateRequest,
};
use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::cluster_client::ClusterClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::lease_client::LeaseClient;
use rpc::etcdserverpb::maintenance_client::MaintenanceClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use rpc::health::health_client::HealthClient;
use rpc::v3lockpb::lock_client::LockClient;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::TIMEOUT;
use crate::watch_stream::WatchStream;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a member. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
}

impl Client {
    /// Connects on first use, and reconnects when the connection is lost. Must be called in a
    /// runtime.
    ///
    /// # Panics
    ///
    /// If `url` is invalid.
    #[track_caller]
    pub fn new(url: &str) -> Client {
        Client { channel: endpoint(url).connect_lazy() }
    }

    /// Creates a client that sends HTTP/2 pings at this interval.
    #[track_caller]
    pub fn pinging(url: &str, interval: Duration) -> Client {
        Client { channel: endpoint(url).http2_keep_alive_interval(interval).connect_lazy() }
    }

    /// Creates a client for a configured endpoint.
    pub(crate) fn over(endpoint: &Endpoint) -> Client {
        Client { channel: endpoint.connect_lazy() }
    }

    /// Returns the connection, for requests that no stub sends.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Returns a stub of the KV service.
    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    /// Returns a stub of the Lease service.
    pub fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    /// Returns a stub of the Watch service.
    pub fn watches(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone())
    }

    /// Returns a stub of the Maintenance service.
    pub fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    /// Returns a stub of the Cluster service.
    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    /// Returns a stub of the Auth service.
    pub fn auth(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    /// Returns a stub of the Lock service.
    pub fn lock(&self) -> LockClient<Channel> {
        LockClient::new(self.channel.clone())
    }

    /// Returns a stub of gRPC's health service.
    pub fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel.clone())
    }

    /// Puts a key.
    pub async fn put(&self, key: &str, value: &str) -> Result<PutResponse, Status> {
        let (key, value) = (key.to_owned().into(), value.to_owned().into());
        let put = PutRequest { key, value, ..PutRequest::default() };
        Ok(self.kv().put(put).await?.into_inner())
    }

    /// Reads a key.
    pub async fn get(&self, key: &str) -> Result<RangeResponse, Status> {
        let key = key.to_owned().into();
        self.range(RangeRequest { key, ..RangeRequest::default() }).await
    }

    /// Reads all keys with a prefix.
    pub async fn get_prefix(&self, prefix: &str) -> Result<RangeResponse, Status> {
        let (key, range_end) = (prefix.to_owned().into(), end_of_prefix(prefix).into());
        self.range(RangeRequest { key, range_end, ..RangeRequest::default() }).await
    }

    /// Reads a range.
    pub async fn range(&self, range: RangeRequest) -> Result<RangeResponse, Status> {
        Ok(self.kv().range(range).await?.into_inner())
    }

    /// Deletes a key.
    pub async fn delete(&self, key: &str) -> Result<DeleteRangeResponse, Status> {
        let key = key.to_owned().into();
        let delete = DeleteRangeRequest { key, ..DeleteRangeRequest::default() };
        Ok(self.kv().delete_range(delete).await?.into_inner())
    }

    /// Runs a transaction.
    pub async fn txn(&self, txn: TxnRequest) -> Result<TxnResponse, Status> {
        Ok(self.kv().txn(txn).await?.into_inner())
    }

    /// Compacts physically, that is, waits until the revisions are deleted from the file.
    pub async fn compact(&self, revision: i64) -> Result<CompactionResponse, Status> {
        let compaction = CompactionRequest { revision, physical: true };
        Ok(self.kv().compact(compaction).await?.into_inner())
    }

    /// Returns the status of the member.
    pub async fn status(&self) -> Result<StatusResponse, Status> {
        Ok(self.maintenance().status(StatusRequest {}).await?.into_inner())
    }

    /// Opens a watch stream and waits until the watcher is created.
    pub async fn watch(&self, create: WatchCreateRequest) -> Result<WatchStream, Status> {
        WatchStream::open(self.watches(), create).await
    }

    /// Watches all keys with a prefix, from a revision on, or from now on if it is 0.
    pub async fn watch_prefix(&self, prefix: &str, revision: i64) -> Result<WatchStream, Status> {
        self.watch(WatchCreateRequest {
            key: prefix.to_owned().into(),
            range_end: end_of_prefix(prefix).into(),
            start_revision: revision,
            ..WatchCreateRequest::default()
        })
        .await
    }
}

#[track_caller]
pub(crate) fn endpoint(url: &str) -> Endpoint {
    let endpoint = Endpoint::from_shared(url.to_owned()).expect("valid URL");
    endpoint.connect_timeout(CONNECT_TIMEOUT).timeout(TIMEOUT)
}

/// The end of the range of a prefix. Keys in tests are ASCII, so the last byte can be incremented.
fn end_of_prefix(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
