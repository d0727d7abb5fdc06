//! A process in front of members: `gateway start` or `grpc-proxy start`.

use std::collections::BTreeMap;

use crate::binary;
use crate::client::Client;
use crate::http::{self, Response};
use crate::output::Output;
use crate::process::{Exit, Process, Signal};
use crate::sandbox::Sandbox;

/// Text in the log once clients are served, by subcommand.
const READY: [(&str, &str); 2] =
    [("gateway", "ready to proxy client requests"), ("grpc-proxy", "started gRPC proxy")];
/// Text in the output if another process took the port.
const TAKEN: &str = "address already in use";
/// Attempts with other ports.
const ATTEMPTS: usize = 5;

/// A running proxy, which listens on the client address of its sandbox.
#[derive(Debug)]
pub struct Proxy {
    sandbox: Sandbox,
    process: Process,
}

impl Proxy {
    /// Starts a subcommand with these flags, in which placeholders stand for the parts of its
    /// sandbox, and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn start(subcommand: &str, flags: &[&str]) -> Proxy {
        let mut sandbox = Sandbox::new();
        let ready = READY.iter().find(|(known, _)| *known == subcommand).expect("a subcommand").1;
        for _ in 0..ATTEMPTS {
            let process = spawn(&sandbox, subcommand, flags);
            if process.stderr().wait_for(|line| line.contains(ready)).is_some() {
                return Proxy { sandbox, process };
            }
            let ended = process.wait();
            let text = ended.text();
            assert!(text.contains(TAKEN), "the proxy did not start: {}\n{text}", ended.status);
            sandbox.move_ports();
        }
        panic!("no free ports in {ATTEMPTS} attempts");
    }

    /// Runs a subcommand that must end by itself.
    #[track_caller]
    pub fn refused(subcommand: &str, flags: &[&str]) -> Exit {
        spawn(&Sandbox::new(), subcommand, flags).wait()
    }

    /// Returns the directory and ports of the proxy.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> String {
        self.sandbox.client_address()
    }

    /// Returns the log of the proxy.
    pub fn log(&self) -> &Output {
        self.process.stderr()
    }

    /// Opens a new gRPC connection.
    pub fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address()))
    }

    /// Sends GET over HTTP/1.1.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        http::get(&self.address(), path)
    }

    /// Returns the value of a metric of the proxy itself.
    ///
    /// # Panics
    ///
    /// If there is no such series.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        http::series(&self.get("/proxy/metrics").text(), series)
    }

    /// Sends SIGTERM, and waits until it has exited.
    #[track_caller]
    pub fn terminate(self) -> Exit {
        self.process.signal(Signal::TERM);
        self.process.wait()
    }
}

fn spawn(sandbox: &Sandbox, subcommand: &str, flags: &[&str]) -> Process {
    let listen = "--listen-addr=127.0.0.1:{client}";
    let args = [subcommand, "start", listen].into_iter().chain(flags.iter().copied());
    let args: Vec<String> = args.map(|arg| sandbox.fill(arg)).collect();
    Process::start(binary::path(), &args, &BTreeMap::new(), sandbox.dir())
}
