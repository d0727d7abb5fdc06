//! The state that all parts of a transport share.

use std::sync::Arc;

use membership::Membership;
use net::{Background, EvictingLimit};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Semaphore;
use types::MemberId;

use crate::client::Client;
use crate::handler::{RECEIVING_BYTES_MAX, SNAPSHOTS_MAX};
use crate::headers::Identity;
use crate::local_member::LocalMember;
use crate::metrics::{Metrics, PeerMetrics};
use crate::peers::PeerTable;
use crate::peers::context::{PeerContext, Timing};
use crate::peers::url_picker::{PeerUrl, URLS_MAX, urls};

/// The state that all parts of a transport share.
#[derive(Debug)]
pub(crate) struct TransportShared {
    pub(crate) metrics: Metrics,
    pub(crate) client: Client,
    pub(crate) timing: Timing,
    pub(crate) background: Background,
    /// The advertised peer URLs of the local member.
    urls: Vec<String>,
    lifecycle: RwLock<Lifecycle>,
    peers: RwLock<PeerTable>,
    /// Bounds the messages that are being received.
    pub(crate) receiving: Arc<EvictingLimit>,
    /// Bounds the snapshots that are being received.
    pub(crate) snapshots: Arc<Semaphore>,
    /// Serializes changes of the membership.
    changing: Mutex<()>,
}

/// The lifecycle of a transport.
#[derive(Clone, Debug, Default)]
enum Lifecycle {
    /// Neither the local member nor the membership is known.
    #[default]
    Detached,
    MembersKnown(Membership),
    Attached(Attached),
    Stopped,
}

/// The local member, and its identity in requests.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub(crate) local: Arc<dyn LocalMember>,
    pub(crate) identity: Identity,
}

impl TransportShared {
    pub(crate) fn new(
        metrics: Metrics,
        client: Client,
        timing: Timing,
        background: Background,
        urls: Vec<String>,
    ) -> TransportShared {
        TransportShared {
            metrics,
            client,
            timing,
            background,
            urls,
            lifecycle: RwLock::default(),
            peers: RwLock::default(),
            receiving: EvictingLimit::new(RECEIVING_BYTES_MAX),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS_MAX)),
            changing: Mutex::default(),
        }
    }

    /// Attaches the local member and starts the peers that are already known.
    pub(crate) fn attach(&self, local: Arc<dyn LocalMember>) {
        let identity = Identity::new(local.id(), local.cluster_id(), &self.urls);
        let attached = Attached { local, identity };
        let _serialized = self.changing.lock();
        let before = {
            let mut lifecycle = self.lifecycle.write();
            if matches!(*lifecycle, Lifecycle::Stopped) {
                return;
            }
            std::mem::replace(&mut *lifecycle, Lifecycle::Attached(attached.clone()))
        };
        if let Lifecycle::MembersKnown(members) = before {
            self.set_peers(&attached, &members);
        }
    }

    /// Applies a new membership, or stores it until a member is attached.
    pub(crate) fn set_members(&self, members: &Membership) {
        let _serialized = self.changing.lock();
        let attached = {
            let mut lifecycle = self.lifecycle.write();
            match &mut *lifecycle {
                Lifecycle::Attached(attached) => attached.clone(),
                Lifecycle::Stopped => return,
                detached => return *detached = Lifecycle::MembersKnown(members.clone()),
            }
        };
        self.set_peers(&attached, members);
    }

    fn set_peers(&self, attached: &Attached, members: &Membership) {
        let context = |id, urls| {
            let metrics = self.metrics.of(attached.identity.member, id);
            self.context(attached, id, urls, metrics)
        };
        self.peers_mut().set(members, attached.identity.member, &self.background, context);
    }

    fn context(
        &self,
        attached: &Attached,
        id: MemberId,
        urls: Vec<PeerUrl>,
        metrics: PeerMetrics,
    ) -> PeerContext {
        let Attached { local, identity } = attached.clone();
        let client = self.client.clone();
        PeerContext::new(id, identity, local, client, urls, metrics, self.timing)
    }

    /// Adds a remote for an unknown sender that names its URLs.
    pub(crate) fn add_remote(&self, attached: &Attached, id: MemberId, named: &str) {
        if id == attached.identity.member || !self.peers().is_unknown(id) {
            return;
        }
        let texts: Vec<String> = named.split(',').take(URLS_MAX).map(ToOwned::to_owned).collect();
        let urls = urls(&texts);
        if !urls.is_empty() {
            let metrics = self.metrics.of_unknown(attached.identity.member);
            self.peers_mut()
                .add_remote(self.context(attached, id, urls, metrics), &self.background);
        }
    }

    pub(crate) fn attached(&self) -> Option<Attached> {
        match &*self.lifecycle.read() {
            Lifecycle::Attached(attached) => Some(attached.clone()),
            _ => None,
        }
    }

    pub(crate) fn peers(&self) -> RwLockReadGuard<'_, PeerTable> {
        self.peers.read()
    }

    fn peers_mut(&self) -> RwLockWriteGuard<'_, PeerTable> {
        self.peers.write()
    }

    /// Releases the local member and all peers.
    pub(crate) fn stop(&self) {
        let _serialized = self.changing.lock();
        let before = {
            let mut lifecycle = self.lifecycle.write();
            std::mem::replace(&mut *lifecycle, Lifecycle::Stopped)
        };
        let peers = std::mem::take(&mut *self.peers_mut());
        // After the locks are released: a stream that ends calls the member.
        drop((peers, before));
        self.client.close();
    }
}
