//! Reads arbitrary bytes as the configuration of a member. The first byte selects the source:
//!
//! ```text
//!   0   the configuration file
//!   1   the command line, an argument per line
//!   2   the environment, a variable per line
//!   3   answers of a discovery service: the size of the cluster, and its members
//!   4   DNS records that list the members
//! ```
//!
//! The file goes through the file system, as `config` reads it by path.
//!
//! Invariants: no panic. The result is the same at the next start. A refused configuration says
//! why. The list of members has no key twice, is in the order of registration, and its text
//! consists of registered values. The members found by DNS are bounded, and each is a name and a
//! URL.

#![no_main]

#[path = "configuration/discovery.rs"]
mod discovery;
#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/discovery/src/member_list.rs"]
mod member_list;
#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/discovery/src/registry_keys.rs"]
mod registry_keys;
#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/discovery/src/srv.rs"]
mod srv;

use std::ffi::OsString;
use std::path::PathBuf;

use config::{Exit, HostInfo, NoDefaultHost, Parsed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((selector, input)) = input.split_first() else { return };
    match selector {
        0 => {
            let path = file();
            std::fs::write(&path, input).expect("write the file");
            check(&["--config-file".into(), path.into()], &[]);
        }
        1 => {
            let args: Vec<OsString> = lines(input).collect();
            // A file of the machine must not be read.
            if !args.iter().any(|arg| arg.to_string_lossy().contains("config-file")) {
                check(&args, &[]);
            }
        }
        2 => {
            let variables: Vec<_> = lines(input).filter_map(variable).collect();
            if !variables.iter().any(|(name, _)| name == "ETCD_CONFIG_FILE") {
                check(&[], &variables);
            }
        }
        3 => discovery::check_registry(input),
        4 => discovery::check_srv(input),
        _ => {}
    }
});

fn check(args: &[OsString], environment: &[(OsString, OsString)]) {
    let parsed = parse(args, environment);
    match &parsed {
        Ok(_) => {}
        Err(Exit::Printed { stdout, stderr, .. }) => {
            assert!(!(stdout.is_empty() && stderr.is_empty()))
        }
        Err(Exit::Logged { notices, .. }) => assert!(!notices.is_empty()),
    }
    assert_eq!(parse(args, environment), parsed);
}

fn parse(args: &[OsString], environment: &[(OsString, OsString)]) -> Result<Parsed, Exit> {
    let host_info = HostInfo { arch: "amd64", default_host: || Err(NoDefaultHost) };
    let program = OsString::from("bowline");
    config::parse(
        [&program].into_iter().chain(args).cloned(),
        environment.iter().cloned(),
        &host_info,
    )
}

fn lines(input: &[u8]) -> impl Iterator<Item = OsString> {
    let lines = input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| Some(std::str::from_utf8(line).ok()?.into()))
}

fn variable(line: OsString) -> Option<(OsString, OsString)> {
    let (name, value) = line.to_str()?.split_once('=')?;
    Some((name.into(), value.into()))
}

/// A file of this process, in memory where the system has such a directory.
fn file() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    let dir = if shared.is_dir() { shared } else { std::env::temp_dir() };
    dir.join(format!("bowline-fuzz-config-{}", std::process::id()))
}
