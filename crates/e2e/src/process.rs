//! A process with its outputs captured, that does not outlive the test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use crate::output::Output;

/// What names a setting of the server in the environment.
const SETTINGS_PREFIX: &str = "ETCD_";

/// A running process. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: Output,
    /// What it logged, unless it was told to log elsewhere.
    pub stderr: Output,
}

impl Process {
    /// Starts a program in a folder. Of the environment, it gets `settings` and nothing else of what the server reads.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[track_caller]
    pub fn start(
        program: &Path,
        args: &[String],
        settings: &BTreeMap<String, String>,
        folder: &Path,
    ) -> Process {
        let mut command = Command::new(program);
        std::env::vars_os().filter(is_setting).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command.args(args).envs(settings).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("start {program:?}: {error}"));
        let stdout = Output::capture(child.stdout.take().expect("stdout is piped"));
        let stderr = Output::capture(child.stderr.take().expect("stderr is piped"));
        Process { child, stdout, stderr }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it prints.
    pub fn stdout(&self) -> &Output {
        &self.stdout
    }

    /// What it logs.
    pub fn stderr(&self) -> &Output {
        &self.stderr
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// If it cannot be sent. To a process that has ended it can, since nobody else collects its status.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child can be sent a signal");
    }

    /// Waits until it ends by itself, which its outputs do with it.
    ///
    /// # Panics
    ///
    /// If it does not in time.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        self.stderr.wait_for_end();
        self.stdout.wait_for_end();
        let status = self.child.wait().expect("a child can be waited for");
        Ended { status, stdout: self.stdout.clone(), stderr: self.stderr.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Once it was waited for, there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The code it ended with, none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<Signal> {
        self.status.signal().and_then(Signal::from_named_raw)
    }

    /// Everything it said.
    pub fn text(&self) -> String {
        format!("{}\n{}", self.stdout.text(), self.stderr.text())
    }
}

fn is_setting((name, _): &(OsString, OsString)) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(SETTINGS_PREFIX))
}
