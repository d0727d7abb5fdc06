//! The output of `--help` and `--version`, and the usage that follows a bad flag.

use crate::flags::{Flag, GROUPS, Slot};
use crate::gates::GATES;
use crate::host_info::HostInfo;
use types::ETCD_VERSION;

/// Bowline's own version.
pub const BOWLINE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The usage text.
pub(crate) const USAGE: &str = "Usage:

  bowline [flags]
    Start a member.

  bowline --version
    Print the version.

  bowline -h | --help
        Print this help with all flags.

  bowline --config-file FILE
        Start a member with the configuration in a YAML or JSON file. All other flags and environment
        variables are then ignored. Durations in the file are integers in nanoseconds
        (600000000000 for 10m), except --heartbeat-interval and --election-timeout: milliseconds.

";

/// The commit of the build, if it was given at build time.
pub const GIT_SHA: &str = match option_env!("BOWLINE_GIT_SHA") {
    Some(sha) => sha,
    None => "Not provided",
};

/// The text in place of the version of Go.
pub const GO_VERSION: &str = "none (written in Rust)";

/// Returns the output of `--version`: etcd's four lines, then Bowline's.
pub(crate) fn version(host_info: &HostInfo) -> String {
    format!(
        "etcd Version: {ETCD_VERSION}\n\
         Git SHA: {GIT_SHA}\n\
         Go Version: {GO_VERSION}\n\
         Go OS/Arch: {}/{}\n\
         Bowline Version: {BOWLINE_VERSION}\n",
        std::env::consts::OS,
        host_info.arch,
    )
}

/// Returns the list of all flags, by heading.
pub(crate) fn flags() -> String {
    let mut text = String::new();
    for group in GROUPS {
        text += &format!("\n{}:\n", group.title);
        for flag in group.flags {
            text += &entry(flag);
        }
    }
    text + "\nUnsafe flags can lose committed data. Use them only for recovery or tests.\n\n"
}

fn entry(flag: &Flag) -> String {
    let mut text = format!("  --{} '{}'\n    {}\n", flag.name, flag.default, flag.help);
    if matches!(flag.slot, Slot::Gates(_)) {
        for (_, name, stage, default) in GATES {
            text += &format!("    {name}=true|false ({} - default={default})\n", stage.as_str());
        }
    }
    text
}
