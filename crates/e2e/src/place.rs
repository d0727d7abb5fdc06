//! Where a member lives: a folder that goes with the test, and ports that nobody else has.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::options::Options;
use crate::process::{Ended, Process};
use crate::{binary, member};

/// A folder and ports.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    ports: Ports,
}

/// Ports that were free a moment ago. Somebody may take them until the server does: whoever starts one tries again with others.
#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    peer: u16,
    extra: u16,
}

impl Place {
    /// An empty folder, and ports.
    ///
    /// # Panics
    ///
    /// If there are none to be had.
    #[track_caller]
    pub fn new() -> Place {
        let folder = TempDir::with_prefix("e2e-").expect("a folder can be made");
        Place { folder, ports: Ports::find() }
    }

    /// Other ports.
    pub(crate) fn move_ports(&mut self) {
        self.ports = Ports::find();
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Where a member with [usual options](Options::new) serves clients.
    pub fn client_address(&self) -> String {
        self.fill("127.0.0.1:{client}")
    }

    /// Where a member with [usual options](Options::new) serves members.
    pub fn peer_address(&self) -> String {
        self.fill("127.0.0.1:{peer}")
    }

    /// The port of which nothing is said in the usual options.
    pub fn extra_address(&self) -> String {
        self.fill("127.0.0.1:{extra}")
    }

    /// A value of an option, as it is meant here.
    pub fn fill(&self, value: &str) -> String {
        let Ports { client, peer, extra } = self.ports;
        value
            .replace("{dir}", &self.folder().display().to_string())
            .replace("{client}", &client.to_string())
            .replace("{peer}", &peer.to_string())
            .replace("{extra}", &extra.to_string())
    }

    /// Starts the server here, and does not wait for anything.
    #[track_caller]
    pub fn spawn(&self, options: &Options) -> Process {
        let fill = |value: &str| self.fill(value);
        let (args, settings) = (options.command_line(fill), options.environment(fill));
        Process::start(binary::path(), &args, &settings, self.folder())
    }

    /// Starts the server here, and waits until it ends by itself.
    ///
    /// # Panics
    ///
    /// If it serves instead.
    #[track_caller]
    pub fn run(&self, options: &Options) -> Ended {
        let process = self.spawn(options);
        if process.stderr().wait_for(member::is_ready).is_some() {
            panic!("it should not have started:\n{}", process.stderr().tail());
        }
        process.wait()
    }
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl Ports {
    /// All are held until all are known, so they differ.
    fn find() -> Ports {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let held = [free(), free(), free()];
        let port = |listener: &TcpListener| listener.local_addr().expect("it is bound").port();
        Ports { client: port(&held[0]), peer: port(&held[1]), extra: port(&held[2]) }
    }
}
