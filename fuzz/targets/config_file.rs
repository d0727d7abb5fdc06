//! Reads arbitrary bytes as a configuration file.
//!
//! Invariant: no panic. The file goes through the file system, as `config` reads it by path.

#![no_main]

use std::ffi::OsString;
use std::path::PathBuf;

use config::{Machine, NoDefaultHost};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let path = file();
    std::fs::write(&path, input).expect("write the file");
    let machine = Machine { arch: "amd64", default_host: || Err(NoDefaultHost) };
    let args = [OsString::from("bowline"), OsString::from("--config-file"), path.into()];
    let _ = config::parse(args, [], &machine);
});

/// A file of this process, in memory where the system has such a directory.
fn file() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    let dir = if shared.is_dir() { shared } else { std::env::temp_dir() };
    dir.join(format!("bowline-fuzz-config-{}", std::process::id()))
}
