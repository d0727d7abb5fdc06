//! The environment of one member: a temporary folder and free ports.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::options::Options;
use crate::process::{Exit, Process};
use crate::{binary, member};

/// A temporary folder and three ports.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    ports: Ports,
}

/// Ports that were free when chosen. Another process may take them before the server does; then the
/// start is retried with others.
#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    peer: u16,
    extra: u16,
}

impl Sandbox {
    /// Creates an empty folder and chooses ports.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[track_caller]
    pub fn new() -> Sandbox {
        let folder = TempDir::with_prefix("e2e-").expect("create a folder");
        Sandbox { folder, ports: Ports::find() }
    }

    /// Chooses other ports.
    pub(crate) fn move_ports(&mut self) {
        self.ports = Ports::find();
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
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
        let Ports { client, peer, extra } = self.ports;
        value
            .replace("{dir}", &self.folder().display().to_string())
            .replace("{client}", &client.to_string())
            .replace("{peer}", &peer.to_string())
            .replace("{extra}", &extra.to_string())
    }

    /// Starts the server without waiting for anything.
    #[track_caller]
    pub fn spawn(&self, options: &Options) -> Process {
        let fill = |value: &str| self.fill(value);
        let (args, settings) = (options.command_line(fill), options.environment(fill));
        Process::start(binary::path(), &args, &settings, self.folder())
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
    /// Holds all ports until all are chosen, so that they differ.
    fn find() -> Ports {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind a free port");
        let held = [free(), free(), free()];
        let port = |listener: &TcpListener| listener.local_addr().expect("a bound address").port();
        Ports { client: port(&held[0]), peer: port(&held[1]), extra: port(&held[2]) }
    }
}
