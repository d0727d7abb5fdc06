//! What `--help` and `--version` print, and what follows a flag that was refused.

use crate::flags::{Flag, GROUPS, Slot};
use crate::gates::GATES;
use crate::machine::Machine;

/// The etcd that Bowline stands in for. Clients and operators decide by it what they may ask.
pub const ETCD_VERSION: &str = "3.7.1";
/// Bowline's own version.
pub const BOWLINE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// How the program is called.
pub(crate) const USAGE: &str = "Usage:

  bowline [flags]
    Start a member.

  bowline --version
    Print the version.

  bowline -h | --help
    Print this, and all flags.

  bowline --config-file FILE
    Start a member with the configuration in a YAML or JSON file. What else is on the command line
    and in the environment is then left out. Durations in the file are whole nanoseconds
    (600000000000 for 10m), except --heartbeat-interval and --election-timeout: milliseconds.

";

/// The commit it was built from, if that was said at build time.
const GIT_SHA: Option<&str> = option_env!("BOWLINE_GIT_SHA");

/// The version: etcd's four lines, then ours.
pub(crate) fn version(machine: &Machine) -> String {
    format!(
        "etcd Version: {ETCD_VERSION}\n\
         Git SHA: {}\n\
         Go Version: none (written in Rust)\n\
         Go OS/Arch: {}/{}\n\
         Bowline Version: {BOWLINE_VERSION}\n",
        GIT_SHA.unwrap_or("Not provided"),
        std::env::consts::OS,
        machine.arch,
    )
}

/// All flags, by heading.
pub(crate) fn flags() -> String {
    let mut text = String::new();
    for group in GROUPS {
        text += &format!("\n{}:\n", group.title);
        for flag in group.flags {
            text += &entry(flag);
        }
    }
    text + "\nMind the unsafe ones: with them, what the cluster promised may be lost.\n\n"
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
