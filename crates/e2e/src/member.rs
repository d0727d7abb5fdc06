//! A member, running and stopped.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::client::Client;
use crate::http::{self, Response};
use crate::options::Options;
use crate::output::Output;
use crate::place::Place;
use crate::process::{Ended, Process, Signal};

/// What the log says once clients are served, whatever the format.
const READY: &str = "ready to serve client requests";
/// What it says if somebody took the port.
const TAKEN: &str = "address already in use";
/// How often other ports are tried.
const ATTEMPTS: usize = 5;

/// A server that serves.
#[derive(Debug)]
pub struct Member {
    place: Place,
    options: Options,
    process: Process,
}

/// A server that has ended, and where it was.
#[derive(Debug)]
pub struct Stopped {
    /// Where it was.
    pub place: Place,
    /// What it was started with, and will be again.
    pub options: Options,
    /// How it ended.
    pub end: Ended,
}

pub(crate) fn is_ready(line: &str) -> bool {
    line.contains(READY)
}

impl Member {
    /// Starts one in a place of its own, and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it does not.
    #[track_caller]
    pub fn start(options: Options) -> Member {
        Member::start_in(Place::new(), options)
    }

    /// Starts one there, and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it does not.
    #[track_caller]
    pub fn start_in(mut place: Place, options: Options) -> Member {
        for _ in 0..ATTEMPTS {
            let process = place.spawn(&options);
            if process.stderr().wait_for(is_ready).is_some() {
                return Member { place, options, process };
            }
            let ended = process.wait();
            let text = ended.text();
            assert!(text.contains(TAKEN), "the server did not start: {}\n{text}", ended.status);
            place.move_ports();
        }
        panic!("no ports were left in {ATTEMPTS} attempts");
    }

    /// Starts several at once, which wait for each other, each in a place of its own; and waits until all serve.
    ///
    /// # Panics
    ///
    /// If one does not.
    #[track_caller]
    pub fn start_together(members: Vec<(Place, Options)>) -> Vec<Member> {
        let spawn = |(place, options): (Place, Options)| {
            let process = place.spawn(&options);
            Member { place, options, process }
        };
        let members: Vec<_> = members.into_iter().map(spawn).collect();
        for member in &members {
            let is_there = member.log().wait_for(is_ready).is_some();
            assert!(is_there, "the server did not start:\n{}", member.log().tail());
        }
        members
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its data directory, as the flag says.
    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.place, &self.options)
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its log.
    pub fn log(&self) -> &Output {
        self.process.stderr()
    }

    /// A connection of its own for gRPC.
    pub fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.place.client_address()))
    }

    /// Asks by HTTP/1.1.
    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        http::get(&self.place.client_address(), path)
    }

    /// Asks by HTTP/1.1 for JSON.
    ///
    /// # Panics
    ///
    /// If it is none.
    #[track_caller]
    pub fn get_json(&self, path: &str) -> Value {
        let text = self.get(path).text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// A value of one metric, by its name and labels as they are printed.
    ///
    /// # Panics
    ///
    /// If there is no such series.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("there is no series {series}"));
        value.parse().unwrap_or_else(|error| panic!("{series} {value}: {error}"))
    }

    /// Memory that is its own, not a mapped file's.
    ///
    /// # Panics
    ///
    /// If the system does not tell.
    #[track_caller]
    pub fn memory_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = fs::read_to_string(path).expect("a process has a status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("it has RssAnon");
        number.parse::<u64>().expect("it is a number") * 1024
    }

    /// Ends it as a power cut would end its machine, as far as the process is concerned.
    #[track_caller]
    pub fn kill(self) -> Stopped {
        self.process.signal(Signal::KILL);
        self.wait()
    }

    /// Asks it to end, and waits until it has.
    #[track_caller]
    pub fn terminate(self) -> Stopped {
        self.process.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn wait(self) -> Stopped {
        let Member { place, options, process } = self;
        Stopped { place, options, end: process.wait() }
    }
}

impl Stopped {
    /// Starts it again, in the same place with the same options.
    #[track_caller]
    pub fn start(self) -> Member {
        Member::start_in(self.place, self.options)
    }

    /// Starts it again, in the same place with other options.
    #[track_caller]
    pub fn start_with(self, change: impl FnOnce(Options) -> Options) -> Member {
        Member::start_in(self.place, change(self.options))
    }

    /// Tries to start it again, which must fail.
    #[track_caller]
    pub fn refused(&self) -> Ended {
        self.place.run(&self.options)
    }

    /// Its data directory, as the flag says.
    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.place, &self.options)
    }
}

fn data_dir(place: &Place, options: &Options) -> PathBuf {
    PathBuf::from(place.fill(options.value("data-dir").unwrap_or("{dir}/default.etcd")))
}
