//! The environment of one member: a temporary directory and free ports.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use testkit::ports::ReservedPort;

use crate::options::Options;
use crate::process::{Exit, Process};
use crate::{binary, member};

/// A temporary directory and three ports.
#[derive(Debug)]
pub struct Sandbox {
    dir: TempDir,
    ports: Ports,
}

/// Ports that no other sandbox has. A process outside of the tests may take one before the server
/// does; then the start is retried with others.
#[derive(Debug)]
struct Ports {
    client: ReservedPort,
    peer: ReservedPort,
    extra: ReservedPort,
}

impl Sandbox {
    /// Creates an empty directory and chooses ports.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[track_caller]
    pub fn new() -> Sandbox {
        let dir = TempDir::with_prefix("e2e-").expect("create a directory");
        Sandbox { dir, ports: Ports::reserve() }
    }

    /// Chooses other ports.
    pub(crate) fn move_ports(&mut self) {
        self.ports = Ports::reserve();
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Returns the client address of a member with [default options](Options::new).
    pub fn client_address(&self) -> String {
        self.fill("127.0.0.1:{client}")
    }

    /// Returns the peer address of a member with [default options](Options::new).
    pub fn peer_address(&self) -> String {
        self.fill("127.0.0.1:{peer}")
    }

    /// Returns the address of the port that the default options do not use.
    pub fn extra_address(&self) -> String {
        self.fill("127.0.0.1:{extra}")
    }

    /// Replaces the placeholders in an option.
    pub fn fill(&self, value: &str) -> String {
        let Ports { client, peer, extra } = &self.ports;
        value
            .replace("{dir}", &self.dir().display().to_string())
            .replace("{client}", &client.number().to_string())
            .replace("{peer}", &peer.number().to_string())
            .replace("{extra}", &extra.number().to_string())
    }

    /// Starts the server without waiting for anything.
    #[track_caller]
    pub fn spawn(&self, options: &Options) -> Process {
        let fill = |value: &str| self.fill(value);
        let (args, settings) = (options.command_line(fill), options.environment(fill));
        Process::start(binary::path(), &args, &settings, self.dir())
    }

    /// Starts the server, and waits until it exits without a signal.
    ///
    /// # Panics
    ///
    /// If it serves clients instead.
    #[track_caller]
    pub fn run(&self, options: &Options) -> Exit {
        let process = self.spawn(options);
        if process.stderr().wait_for(member::is_ready).is_some() {
            panic!("the server started, but should have refused to:\n{}", process.stderr().tail());
        }
        process.wait()
    }
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::new()
    }
}

impl Ports {
    fn reserve() -> Ports {
        let [client, peer, extra] = std::array::from_fn(|_| ReservedPort::new());
        Ports { client, peer, extra }
    }
}
