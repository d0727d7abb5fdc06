//! A process with captured outputs that does not outlive the test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use crate::output::Output;

/// Prefixes of environment variables that the server reads.
const SETTING_PREFIXES: [&str; 2] = ["ETCD_", "OTEL_"];
/// Further environment variables that the server reads, in upper case.
const SETTINGS: [&str; 5] = ["GODEBUG", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NOTIFY_SOCKET"];

/// A running process, killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// Exit status and output of a process.
#[derive(Debug)]
pub struct Exit {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Output,
    /// Standard error: the log, unless configured otherwise.
    pub stderr: Output,
}

impl Process {
    /// Starts a program in a directory. Of the variables that the server reads, only `settings` are
    /// passed.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[track_caller]
    pub fn start(
        program: &Path,
        args: &[String],
        settings: &BTreeMap<String, String>,
        working_dir: &Path,
    ) -> Process {
        let mut command = Command::new(program);
        std::env::vars_os().filter(is_setting).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command.args(args).envs(settings).current_dir(working_dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("start {program:?}: {error}"));
        let stdout = Output::capture(child.stdout.take().expect("stdout is piped"));
        let stderr = Output::capture(child.stderr.take().expect("stderr is piped"));
        Process { child, stdout, stderr }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the standard output of the process.
    pub fn stdout(&self) -> &Output {
        &self.stdout
    }

    /// Returns the standard error of the process.
    pub fn stderr(&self) -> &Output {
        &self.stderr
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// If it cannot be sent. A process that has exited can still receive one, since only this value
    /// waits for it.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("send a signal");
    }

    /// Waits until its outputs end and it exits.
    ///
    /// # Panics
    ///
    /// If it does not exit in time.
    #[track_caller]
    pub fn wait(mut self) -> Exit {
        self.stderr.wait_for_end();
        self.stdout.wait_for_end();
        let status = self.child.wait().expect("wait for the child");
        Exit { status, stdout: self.stdout.clone(), stderr: self.stderr.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail after `wait`, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Exit {
    /// Returns the exit code, or none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns the signal that ended it.
    pub fn signal(&self) -> Option<Signal> {
        self.status.signal().and_then(Signal::from_named_raw)
    }

    /// Returns both outputs as one text.
    pub fn text(&self) -> String {
        format!("{}\n{}", self.stdout.text(), self.stderr.text())
    }
}

fn is_setting((name, _): &(OsString, OsString)) -> bool {
    let Some(name) = name.to_str() else { return false };
    // Variables for proxies are read in lower case, too.
    SETTING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SETTINGS.contains(&name.to_ascii_uppercase().as_str())
}
