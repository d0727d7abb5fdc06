//! What all parts of a transport share.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use membership::Membership;
use net::{Background, EvictingLimit};
use tokio::sync::Semaphore;
use types::MemberId;

use crate::addresses::{URLS_MAX, Url, urls};
use crate::client::Client;
use crate::contact::{Contact, Timing};
use crate::handler::{RECEIVING_BYTES_MAX, SNAPSHOTS_MAX};
use crate::headers::Identity;
use crate::local::Local;
use crate::metrics::{Counts, Metrics};
use crate::peers::Peers;

/// What all parts of a transport share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) metrics: Metrics,
    pub(crate) client: Client,
    pub(crate) timing: Timing,
    pub(crate) on: Background,
    /// Where this member says that others reach it.
    urls: Vec<String>,
    state: RwLock<State>,
    peers: RwLock<Peers>,
    /// Messages that are being received.
    pub(crate) receiving: Arc<EvictingLimit>,
    /// Snapshots that are.
    pub(crate) snapshots: Arc<Semaphore>,
    /// Only one at a time changes who the members are.
    changing: Mutex<()>,
}

/// Before, while and after there is a member to speak for.
#[derive(Clone, Debug, Default)]
enum State {
    /// The members are known, and nothing is done about it yet.
    #[default]
    Waiting,
    Known(Membership),
    Attached(Attached),
    Stopped,
}

/// The member that is spoken for.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub(crate) local: Arc<dyn Local>,
    pub(crate) identity: Identity,
}

impl Shared {
    pub(crate) fn new(
        metrics: Metrics,
        client: Client,
        timing: Timing,
        on: Background,
        urls: Vec<String>,
    ) -> Shared {
        Shared {
            metrics,
            client,
            timing,
            on,
            urls,
            state: RwLock::default(),
            peers: RwLock::default(),
            receiving: EvictingLimit::new(RECEIVING_BYTES_MAX),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS_MAX)),
            changing: Mutex::default(),
        }
    }

    /// There is a member to speak for.
    pub(crate) fn attach(&self, local: Arc<dyn Local>) {
        let identity = Identity::new(local.id(), local.cluster_id(), &self.urls);
        let attached = Attached { local, identity };
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if matches!(*state, State::Stopped) {
                return;
            }
            std::mem::replace(&mut *state, State::Attached(attached.clone()))
        };
        if let State::Known(members) = before {
            self.set_peers(&attached, &members);
        }
    }

    /// Members came, went or moved.
    pub(crate) fn set_members(&self, members: &Membership) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let attached = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            match &mut *state {
                State::Attached(attached) => attached.clone(),
                State::Stopped => return,
                waiting => return *waiting = State::Known(members.clone()),
            }
        };
        self.set_peers(&attached, members);
    }

    fn set_peers(&self, attached: &Attached, members: &Membership) {
        let contact = |id, urls| {
            let counts = self.metrics.of(attached.identity.member, id);
            self.contact(attached, id, urls, counts)
        };
        self.peers_mut().set(members, attached.identity.member, &self.on, contact);
    }

    fn contact(
        &self,
        attached: &Attached,
        id: MemberId,
        urls: Vec<Url>,
        counts: Counts,
    ) -> Contact {
        let Attached { local, identity } = attached.clone();
        let client = self.client.clone();
        Contact::new(id, identity, local, client, urls, counts, self.timing)
    }

    /// Somebody speaks who is not known, and says where they can be reached.
    pub(crate) fn add_remote(&self, attached: &Attached, id: MemberId, named: &str) {
        if id == attached.identity.member || !self.peers().is_unknown(id) {
            return;
        }
        let texts: Vec<String> = named.split(',').take(URLS_MAX).map(ToOwned::to_owned).collect();
        let urls = urls(&texts);
        if !urls.is_empty() {
            let counts = self.metrics.of_unknown(attached.identity.member);
            self.peers_mut().add_remote(self.contact(attached, id, urls, counts), &self.on);
        }
    }

    pub(crate) fn attached(&self) -> Option<Attached> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Attached(attached) => Some(attached.clone()),
            _ => None,
        }
    }

    pub(crate) fn peers(&self) -> RwLockReadGuard<'_, Peers> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn peers_mut(&self) -> RwLockWriteGuard<'_, Peers> {
        self.peers.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the member, and of all others.
    pub(crate) fn stop(&self) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Stopped)
        };
        let peers = std::mem::take(&mut *self.peers_mut());
        // Not while a lock is held: a stream that ends tells the member.
        drop((peers, before));
        self.client.close();
    }
}
