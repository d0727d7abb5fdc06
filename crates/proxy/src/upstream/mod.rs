//! The connections to the members: which of them serves the next call, and what happens when one
//! does not answer.
//!
//! ```text
//!   KvClient ─► Channel ─► the next connected endpoint ── nothing sent ──► the one after it
//!                  │                                                              │
//!                  └─ dials the others in the background     none is left: the first dial
//!                                                            that succeeds, or Unavailable
//! ```
//!
//! Calls take turns over the endpoints that are connected. A call that was not sent moves on to the
//! next endpoint; one that was sent is not repeated here, because it may have taken effect. Calls
//! start the dials of endpoints without a connection, and wait for them only if there is no other.
//!
//! All other modules of the crate reach members through [`Upstream`] alone.

mod auto_sync;
mod channel;
mod endpoint;
mod error;
mod receiving;
mod txn;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use net::TargetError;
use parking_lot::RwLock;
use prost::Message;
use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::cluster_client::ClusterClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::lease_client::LeaseClient;
use rpc::etcdserverpb::maintenance_client::MaintenanceClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use rpc::v3electionpb::election_client::ElectionClient;
use rpc::v3lockpb::lock_client::LockClient;
use tls::ClientTls;
use tokio::runtime::Handle;

use receiving::ReceivePermits;

pub(crate) use auto_sync::keep_synced;
pub(crate) use channel::Channel;
pub(crate) use endpoint::{Endpoint, SentTo};
pub(crate) use error::{from_tonic, is_unreachable, too_large};

/// The limit on requests if the flag is zero or less. As in etcd's client.
const SEND_BYTES_DEFAULT: usize = 2 << 20;
/// The limit on responses if the flag is zero or less. As in etcd's client.
const RECV_BYTES_DEFAULT: usize = i32::MAX as usize;

/// The settings of the connections to members.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// The endpoints: URLs or `host:port`.
    pub endpoints: Vec<String>,
    /// The certificates, and the rules by which members are trusted.
    pub tls: Arc<ClientTls>,
    /// Whether endpoints without a scheme use TLS.
    pub secure_by_default: bool,
    /// The time to connect.
    pub dial_timeout: Duration,
    /// The proxies to connect through.
    pub proxies: Arc<net::ProxySettings>,
    /// The silence after which a member is pinged; none disables pings.
    pub keepalive_time: Option<Duration>,
    /// The time for a member to answer a ping.
    pub keepalive_timeout: Duration,
    /// Whether members are pinged without a call in flight.
    pub keepalive_when_idle: bool,
    /// The limit on requests, in bytes; the default if not positive.
    pub send_bytes_max: i64,
    /// The limit on responses, in bytes; the default if not positive.
    pub recv_bytes_max: i64,
}

/// The connections to the members. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    shared: Arc<UpstreamState>,
}

#[derive(Debug)]
struct UpstreamState {
    settings: UpstreamSettings,
    endpoints: RwLock<Arc<[Arc<Endpoint>]>>,
    /// Counts calls, for taking turns.
    turn: AtomicUsize,
    /// The runtime that drives the connections.
    runtime: Handle,
    /// The bound on long responses.
    receiving: ReceivePermits,
}

impl Upstream {
    /// Creates the connections, without connecting.
    ///
    /// # Errors
    /// An endpoint is invalid.
    pub(crate) fn new(
        settings: UpstreamSettings,
        runtime: Handle,
    ) -> Result<Upstream, TargetError> {
        let urls = settings.endpoints.clone();
        let endpoints = RwLock::new(Arc::new([]) as Arc<[Arc<Endpoint>]>);
        let shared = UpstreamState {
            settings,
            endpoints,
            turn: AtomicUsize::new(0),
            runtime,
            receiving: ReceivePermits::default(),
        };
        let upstream = Upstream { shared: Arc::new(shared) };
        upstream.set_endpoints(&urls)?;
        Ok(upstream)
    }

    /// Replaces the endpoints. Connections to endpoints that stay are kept. Returns whether
    /// anything changed.
    pub(crate) fn set_endpoints(&self, urls: &[String]) -> Result<bool, TargetError> {
        let before = self.endpoints();
        let known = |url: &String| before.iter().find(|known| known.url() == url).cloned();
        let endpoint = |url: &String| match known(url) {
            Some(known) => Ok(known),
            None => Endpoint::new(url, &self.shared.settings).map(Arc::new),
        };
        let endpoints: Arc<[Arc<Endpoint>]> =
            urls.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?.into();
        let same = endpoints.len() == before.len()
            && endpoints.iter().zip(before.iter()).all(|(new, old)| Arc::ptr_eq(new, old));
        *self.shared.endpoints.write() = endpoints;
        Ok(!same)
    }

    /// Returns the endpoints.
    pub(crate) fn endpoints(&self) -> Arc<[Arc<Endpoint>]> {
        Arc::clone(&self.shared.endpoints.read())
    }

    /// Returns the position of the endpoint that the next call begins with.
    fn next_turn(&self) -> usize {
        self.shared.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> &UpstreamSettings {
        &self.shared.settings
    }

    fn channel(&self) -> Channel {
        Channel::new(self.clone())
    }

    /// The limit on requests, in bytes.
    fn send_bytes_max(&self) -> usize {
        positive(self.shared.settings.send_bytes_max).unwrap_or(SEND_BYTES_DEFAULT)
    }

    /// The limit on responses, in bytes.
    pub(crate) fn recv_bytes_max(&self) -> usize {
        positive(self.shared.settings.recv_bytes_max).unwrap_or(RECV_BYTES_DEFAULT)
    }

    /// Creates a request with the metadata of a call.
    ///
    /// # Errors
    /// The message is too large.
    pub(crate) fn request<Q: Message>(
        &self,
        message: Q,
        metadata: &HeaderMap,
    ) -> Result<tonic::Request<Q>, tonic::Status> {
        let (length, max) = (message.encoded_len(), self.send_bytes_max());
        if length > max {
            return Err(too_large(length, max));
        }
        let mut request = tonic::Request::new(message);
        *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(metadata.clone());
        Ok(request)
    }
}

macro_rules! stubs {
    ($($name:ident: $client:ident,)*) => {
        impl Upstream {
            $(
                #[doc = concat!("Returns a `", stringify!($client), "`.")]
                pub(crate) fn $name(&self) -> $client<Channel> {
                    $client::new(self.channel())
                        .max_encoding_message_size(usize::MAX)
                        .max_decoding_message_size(self.recv_bytes_max())
                }
            )*
        }
    };
}

stubs! {
    kv: KvClient,
    watch: WatchClient,
    lease: LeaseClient,
    cluster: ClusterClient,
    maintenance: MaintenanceClient,
    auth: AuthClient,
    lock: LockClient,
    election: ElectionClient,
}

fn positive(bytes: i64) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
pub(crate) mod tests;
