//! A server process, running and stopped.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::client::Client;
use crate::http::{self, Response};
use crate::options::Options;
use crate::output::Output;
use crate::process::{Exit, Process, Signal};
use crate::sandbox::Sandbox;

/// Text in the log once clients are served, in every log format.
const READY: &str = "ready to serve client requests";
/// Text in the log if another process took the port.
const TAKEN: &str = "address already in use";
/// Attempts with other ports.
const ATTEMPTS: usize = 5;

/// A running server that serves clients.
#[derive(Debug)]
pub struct Member {
    sandbox: Sandbox,
    options: Options,
    process: Process,
}

/// A server that has exited, with its sandbox.
#[derive(Debug)]
pub struct Stopped {
    /// Directory and ports.
    pub sandbox: Sandbox,
    /// Options for the next start.
    pub options: Options,
    /// Exit status and output.
    pub end: Exit,
}

pub(crate) fn is_ready(line: &str) -> bool {
    line.contains(READY)
}

impl Member {
    /// Starts a member in a new sandbox, and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn start(options: Options) -> Member {
        Member::start_in(Sandbox::new(), options)
    }

    /// Starts a member in a sandbox, and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn start_in(mut sandbox: Sandbox, options: Options) -> Member {
        for _ in 0..ATTEMPTS {
            let process = sandbox.spawn(&options);
            if process.stderr().wait_for(is_ready).is_some() {
                return Member { sandbox, options, process };
            }
            let ended = process.wait();
            let text = ended.text();
            assert!(text.contains(TAKEN), "the server did not start: {}\n{text}", ended.status);
            sandbox.move_ports();
        }
        panic!("no free ports in {ATTEMPTS} attempts");
    }

    /// Starts several members that wait for each other, and waits until all serve.
    ///
    /// # Panics
    ///
    /// If one does not start.
    #[track_caller]
    pub fn start_together(members: Vec<(Sandbox, Options)>) -> Vec<Member> {
        let spawn = |(sandbox, options): (Sandbox, Options)| {
            let process = sandbox.spawn(&options);
            Member { sandbox, options, process }
        };
        let members: Vec<_> = members.into_iter().map(spawn).collect();
        for member in &members {
            let is_serving = member.log().wait_for(is_ready).is_some();
            assert!(is_serving, "the server did not start:\n{}", member.log().tail());
        }
        members
    }

    /// Returns the directory and ports of the member.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the data directory of the member.
    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.sandbox, &self.options)
    }

    /// Returns the process of the member.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the log of the member.
    pub fn log(&self) -> &Output {
        self.process.stderr()
    }

    /// Opens a new gRPC connection.
    pub fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.sandbox.client_address()))
    }

    /// Sends GET over HTTP/1.1.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        http::get(&self.sandbox.client_address(), path)
    }

    /// Sends GET over HTTP/1.1 and parses the response as JSON.
    ///
    /// # Panics
    ///
    /// If it is not JSON.
    #[track_caller]
    pub fn get_json(&self, path: &str) -> Value {
        let text = self.get(path).text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// Returns the value of a metric, by its name and labels as printed.
    ///
    /// # Panics
    ///
    /// If there is no such series.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        http::series(&self.get("/metrics").text(), series)
    }

    /// Returns the private memory of the member, without mapped files.
    ///
    /// # Panics
    ///
    /// If /proc does not have it.
    #[track_caller]
    pub fn memory_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = fs::read_to_string(path).expect("read /proc/<pid>/status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("a line RssAnon");
        number.parse::<u64>().expect("a number") * 1024
    }

    /// Kills the member with SIGKILL.
    #[track_caller]
    pub fn kill(self) -> Stopped {
        self.process.signal(Signal::KILL);
        self.wait()
    }

    /// Sends SIGTERM, and waits until it has exited.
    #[track_caller]
    pub fn terminate(self) -> Stopped {
        self.process.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until it exits without a signal.
    #[track_caller]
    pub fn wait(self) -> Stopped {
        let Member { sandbox, options, process } = self;
        Stopped { sandbox, options, end: process.wait() }
    }
}

impl Stopped {
    /// Restarts the member with the same options.
    #[track_caller]
    pub fn start(self) -> Member {
        Member::start_in(self.sandbox, self.options)
    }

    /// Restarts the member with changed options.
    #[track_caller]
    pub fn start_with(self, change: impl FnOnce(Options) -> Options) -> Member {
        Member::start_in(self.sandbox, change(self.options))
    }

    /// Tries to restart it, which must fail.
    #[track_caller]
    pub fn refused(&self) -> Exit {
        self.sandbox.run(&self.options)
    }

    /// Returns the data directory of the member.
    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.sandbox, &self.options)
    }
}

fn data_dir(sandbox: &Sandbox, options: &Options) -> PathBuf {
    PathBuf::from(sandbox.fill(options.value("data-dir").unwrap_or("{dir}/default.etcd")))
}
