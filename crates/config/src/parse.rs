//! [`parse`]: from arguments, environment and file to a [`Config`], in etcd's order.

use std::ffi::OsString;

use gocompat::{GoDuration, quote_bytes};
use logging::LogConfig;

use crate::error::{ConfigError, NO_TEXT};
use crate::file::{self, FileError};
use crate::flags::args::{self, Stop};
use crate::flags::environment::Environment;
use crate::flags::{Flags, help};
use crate::host_info::HostInfo;
use crate::notice::Notice;
use crate::resolve::logging::log_config;
use crate::resolved::Config;
use crate::subcommand::{self, Subcommand};
use crate::url::list::UniqueUrls;
use crate::{check, resolve};

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The configuration.
    pub config: Config,
    /// The messages to log, in this order.
    pub notices: Vec<Notice>,
}

/// A reason to end the process without starting a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Print texts and exit with a code.
    Printed {
        /// The text for standard output.
        stdout: String,
        /// The text for standard error.
        stderr: String,
        /// The exit code.
        code: u8,
    },
    /// Log notices and exit with code 1.
    Logged {
        /// The configuration of logging, as far as it is known.
        logs: LogConfig,
        /// The messages to log, in this order.
        notices: Vec<Notice>,
    },
}

impl Exit {
    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Printed { code, .. } => *code,
            Self::Logged { .. } => 1,
        }
    }
}

/// The meaning of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Start a member.
    Member(Box<Parsed>),
    /// Run a subcommand.
    Subcommand(Subcommand),
}

/// Parses a command line: that of a member, or of a subcommand. The first argument is the name of
/// the program.
///
/// # Errors
/// An [`Exit`] if there is nothing to start: help, the version, or a rejected configuration.
pub fn parse_command(
    args: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    host_info: &HostInfo,
) -> Result<Invocation, Exit> {
    let session = Session::new(args, environment, host_info)?;
    match subcommand::parse(session.args.get(1..).unwrap_or_default()) {
        Some(parsed) => parsed.map(Invocation::Subcommand),
        None => Ok(Invocation::Member(Box::new(session.run()?))),
    }
}

/// Parses the configuration of a member. The first argument is the name of the program.
///
/// # Errors
/// An [`Exit`] if there is nothing to start: help, the version, or a rejected configuration.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    host_info: &HostInfo,
) -> Result<Parsed, Exit> {
    Session::new(args, environment, host_info)?.run()
}

/// Returns the messages to log instead of `notices` if a log output cannot be opened.
///
/// etcd opens the outputs before it checks anything else, so notices of later checks are left out.
pub fn notices_without_logs(notices: &[Notice], args: &[String], error: String) -> Vec<Notice> {
    let before = notices.iter().filter(|notice| notice.is_before_logs()).cloned();
    let running = Notice::Running { args: args.to_vec() };
    before.chain([running, Notice::Rejected(ConfigError::LogOutput(error))]).collect()
}

/// Rejects arguments that are not UTF-8, except for the name of the program.
fn texts(args: Vec<OsString>) -> Result<Vec<String>, Exit> {
    let text = |(position, arg): (usize, OsString)| match arg.into_string() {
        Ok(arg) => Ok(arg),
        Err(arg) if position == 0 => Ok(arg.to_string_lossy().into_owned()),
        Err(arg) => Err(quote_bytes(arg.as_encoded_bytes())),
    };
    args.into_iter().enumerate().map(text).collect::<Result<_, _>>().map_err(|arg| {
        printed("", &format!("invalid argument {arg}: {NO_TEXT}\n{}", help::USAGE), 2)
    })
}

/// The state of a run of [`parse`].
struct Session<'a> {
    args: Vec<String>,
    environment: Environment,
    host_info: &'a HostInfo,
    notices: Vec<Notice>,
    /// The configuration of logging, as far as it is known.
    logs: LogConfig,
}

/// The minimum of `--raft-read-timeout` and `--raft-write-timeout`.
const RAFT_TIMEOUT_MIN: GoDuration = GoDuration::from_nanos(5_000_000_000);

/// Deprecated flags and etcd's warnings about them.
const DEPRECATED: [(&str, &str); 2] = [
    ("max-snapshots", "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8."),
    (
        "v2-deprecation",
        "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, ignoring user input.",
    ),
];

impl<'a> Session<'a> {
    fn new(
        args: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        host_info: &'a HostInfo,
    ) -> Result<Session<'a>, Exit> {
        let mut session = Session {
            args: Vec::new(),
            environment: Environment::new(environment),
            host_info,
            notices: Vec::new(),
            logs: LogConfig::default(),
        };
        session.check_arch()?;
        session.args = texts(args.into_iter().collect())?;
        Ok(session)
    }

    fn run(mut self) -> Result<Parsed, Exit> {
        let typed = self.read_args()?;
        let flags = self.read_rest(typed)?;
        self.finish(flags)
    }

    fn check_arch(&mut self) -> Result<(), Exit> {
        if self.host_info.is_supported() {
            return Ok(());
        }
        let arch = self.host_info.arch.to_owned();
        if self.environment.take_unsupported_arch().as_deref() == Some(self.host_info.arch) {
            self.notices.push(Notice::ArchAllowed { arch });
            return Ok(());
        }
        Err(self.end_with(Notice::ArchRefused { arch }))
    }

    /// Parses the command line.
    fn read_args(&mut self) -> Result<Flags, Exit> {
        let args = self.args.get(1..).unwrap_or_default();
        let mut flags = Flags::new();
        match args::read(&mut flags, args) {
            Ok(()) if flags.version => Err(printed(&help::version(self.host_info), "", 0)),
            Ok(()) => Ok(flags),
            Err(Stop::Help) => Err(printed(&help::flags(), help::USAGE, 0)),
            Err(Stop::Usage(text)) => Err(printed("", &format!("{text}\n{}", help::USAGE), 2)),
            Err(Stop::Stray(arg)) => Err(self.reject(ConfigError::Stray(arg))),
        }
    }

    /// Reads the configuration file if there is one, otherwise the environment, and checks the
    /// flags.
    fn read_rest(&mut self, typed: Flags) -> Result<Flags, Exit> {
        let from_flag = Some(typed.config_file.clone()).filter(|path| !path.is_empty());
        let path = from_flag.map_or_else(|| self.environment.config_file(), |path| Ok(Some(path)));
        match path.map_err(|rejection| self.reject(rejection))? {
            Some(path) => self.read_file(&path, &typed),
            None => self.read_environment(typed),
        }
    }

    fn read_file(&mut self, path: &str, typed: &Flags) -> Result<Flags, Exit> {
        let mut flags = match file::read(path, &mut self.notices) {
            Ok(flags) => flags,
            Err(FileError::Rejected(rejection)) => return Err(self.reject(rejection)),
            Err(FileError::Printed(text)) => return Err(printed("", &text, 1)),
        };
        // Compat: as in etcd, these two are taken from the command line even with a file, and are
        // not raised to their minimum.
        flags.raft_read_timeout = typed.raft_read_timeout;
        flags.raft_write_timeout = typed.raft_write_timeout;
        let logs = log_config(&flags).map_err(|rejection| self.reject(rejection))?;
        check::check(&flags, &mut self.notices).map_err(|rejection| self.reject(rejection))?;
        self.logs = logs;
        self.notices.push(Notice::FileLoaded { path: path.to_owned() });
        Ok(flags)
    }

    fn read_environment(&mut self, mut flags: Flags) -> Result<Flags, Exit> {
        let environment = std::mem::take(&mut self.environment);
        let read = environment.read(&mut flags, &mut self.notices);
        read.map_err(|rejection| self.reject(rejection))?;
        self.raise_timeouts(&mut flags);
        adjust_typed(&mut flags);
        if flags.discovery_fallback == "proxy" {
            return Err(self.reject(ConfigError::DiscoveryProxy));
        }
        self.logs = log_config(&flags).map_err(|rejection| self.reject(rejection))?;
        if let Err(rejection) = check::check(&flags, &mut self.notices) {
            self.note_deprecated(&flags);
            return Err(self.reject(rejection));
        }
        Ok(flags)
    }

    fn raise_timeouts(&mut self, flags: &mut Flags) {
        let timeouts = [
            ("raft-read-timeout", &mut flags.raft_read_timeout),
            ("raft-write-timeout", &mut flags.raft_write_timeout),
        ];
        for (flag, timeout) in timeouts {
            if *timeout < RAFT_TIMEOUT_MIN {
                *timeout = RAFT_TIMEOUT_MIN;
                self.notices.push(Notice::TimeoutRaised { flag, to: RAFT_TIMEOUT_MIN });
            }
        }
    }

    /// Resolves the checked flags.
    fn finish(mut self, flags: Flags) -> Result<Parsed, Exit> {
        self.note_deprecated(&flags);
        self.note_running();
        match resolve::resolve(flags, self.logs.clone(), self.host_info, &mut self.notices) {
            Err(rejection) => Err(self.end_with(Notice::NotStarted(rejection))),
            Ok(config) => Ok(Parsed { config, notices: self.notices }),
        }
    }

    fn note_deprecated(&mut self, flags: &Flags) {
        let deprecated = DEPRECATED.iter().filter(|(flag, _)| flags.is_given(flag));
        self.notices.extend(deprecated.map(|(_, text)| Notice::Deprecated(text)));
    }

    fn note_running(&mut self) {
        self.notices.push(Notice::Running { args: self.args.clone() });
    }

    /// Ends with a rejected configuration: logs the arguments and the error.
    fn reject(&mut self, rejection: ConfigError) -> Exit {
        // Compat: as in etcd, this error ends the process before the arguments are logged.
        if matches!(rejection, ConfigError::Shadowed(_)) {
            return self.end_with(Notice::Rejected(rejection));
        }
        self.note_running();
        let hint = (rejection == ConfigError::AdvertiseClientUnset)
            .then(|| Notice::AdvertiseUnset(rejection.clone()));
        self.notices.push(Notice::Rejected(rejection));
        self.notices.extend(hint);
        self.end()
    }

    fn end_with(&mut self, last: Notice) -> Exit {
        self.notices.push(last);
        self.end()
    }

    fn end(&mut self) -> Exit {
        Exit::Logged { logs: self.logs.clone(), notices: std::mem::take(&mut self.notices) }
    }
}

fn printed(stdout: &str, stderr: &str, code: u8) -> Exit {
    Exit::Printed { stdout: stdout.to_owned(), stderr: stderr.to_owned(), code }
}

/// Adjusts the defaults of flags that depend on which other flags were given.
fn adjust_typed(flags: &mut Flags) {
    if flags.is_given("listen-client-urls") && !flags.is_given("advertise-client-urls") {
        flags.advertise_client_urls = UniqueUrls::default();
    }
    let discovers = !flags.discovery_srv.is_empty()
        || !flags.discovery_srv_name.is_empty()
        || !flags.discovery_endpoints.is_empty();
    if discovers && !flags.is_given("initial-cluster") {
        flags.initial_cluster.clear();
    }
}
