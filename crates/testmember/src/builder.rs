//! The parts that a member is started from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Disk, OsClock, OsDisk, OsRandom};
use prometheus::Registry;
use server::{Member, Platform, ServerConfig, StartError, Transport};
use tempfile::TempDir;

use crate::{SilentPeers, TestMember};

/// The data directory on a disk that the test provides.
const SIMULATED_DIR: &str = "/data";
/// A tenth of etcd's default: the first election takes 100 ms or less.
const HEARTBEAT: Duration = Duration::from_millis(10);

/// The parts that every start of a member uses.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) config: ServerConfig,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    transport: Arc<dyn Transport>,
    /// The temporary data directory; deleted when dropped.
    _temp_dir: Option<TempDir>,
}

impl Setup {
    pub(crate) fn start(&self, registry: &Registry) -> Result<Member, StartError> {
        let platform = Platform {
            disk: Arc::clone(&self.disk),
            clock: Arc::clone(&self.clock),
            random: Box::new(OsRandom),
        };
        Member::start(self.config.clone(), platform, Arc::clone(&self.transport), registry)
    }
}

/// Starts a [`TestMember`].
#[derive(Debug)]
pub struct Builder {
    setup: Setup,
    registry: Registry,
}

impl Builder {
    pub(crate) fn new(name: &str) -> Builder {
        let temp_dir = tempfile::tempdir().unwrap();
        let mut config = ServerConfig::new(name, temp_dir.path());
        config.heartbeat = HEARTBEAT;
        config.unsafe_no_fsync = true;
        config.bcrypt_cost = auth::COST_MIN;
        let setup = Setup {
            config,
            disk: Arc::new(OsDisk),
            clock: Arc::new(OsClock::default()),
            transport: Arc::new(SilentPeers),
            _temp_dir: Some(temp_dir),
        };
        Builder { setup, registry: Registry::new() }
    }

    /// Changes the configuration.
    #[must_use]
    pub fn config(mut self, configure: impl FnOnce(&mut ServerConfig)) -> Builder {
        configure(&mut self.setup.config);
        self
    }

    /// Uses this data directory, which stays when the member is dropped.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Builder {
        self.setup.config.data_dir = dir.into();
        self.setup._temp_dir = None;
        self
    }

    /// Uses a disk of the test, with the data directory `/data`. The member syncs, since such tests
    /// check durability.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Builder {
        self.setup.disk = disk;
        self.setup.config.unsafe_no_fsync = false;
        self.data_dir(SIMULATED_DIR)
    }

    /// Uses a clock of the test.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Builder {
        self.setup.clock = clock;
        self
    }

    /// Uses a transport of the test.
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Builder {
        self.setup.transport = transport;
        self
    }

    /// Registers the metrics of the first start here.
    #[must_use]
    pub fn registry(mut self, registry: &Registry) -> Builder {
        self.registry = registry.clone();
        self
    }

    /// Starts the member and waits until it leads.
    ///
    /// # Panics
    /// The member cannot start, or does not lead within the
    /// [bound of all waits](testkit::waiting::TIMEOUT).
    #[track_caller]
    pub fn start(self) -> TestMember {
        let member = self.try_start().unwrap();
        member.wait_until_leading();
        member
    }

    /// Starts the member without waiting until it leads.
    ///
    /// # Errors
    /// The member cannot start.
    pub fn try_start(self) -> Result<TestMember, StartError> {
        let Builder { setup, registry } = self;
        let member = Some(setup.start(&registry)?);
        Ok(TestMember { member, registry, setup })
    }
}
