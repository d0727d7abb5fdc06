//! The binary under test.
//!
//! Cargo hands a test the binaries of its own package only, so this one is built from here, once, into the folder and with the profile that
//! the test itself was built with. Whatever is up to date costs nothing.
//!
//! With `BOWLINE_E2E_SERVER=/path/to/etcd` the same tests ask another server. Most of them hold for etcd 3.7.1 as well, which is how their
//! expectations were found; those about damaged files, about how streams end,
//! about what we bound and about what is still to come do not.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Names another server to test.
const OVERRIDE: &str = "BOWLINE_E2E_SERVER";

/// Where the server is, built if need be.
///
/// # Panics
///
/// If it cannot be built.
pub fn path() -> &'static Path {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || env::var_os(OVERRIDE).map_or_else(build, |path| Some(PathBuf::from(path)));
    PATH.get_or_init(find).as_deref().expect("the server builds")
}

/// None if it does not, which cargo has told on stderr.
fn build() -> Option<PathBuf> {
    let Built { target, profile } = built();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--workspace", "--bin", "bowline", "--profile", &profile]);
    cargo.args(["--message-format", "json-render-diagnostics"]).arg("--target-dir").arg(target);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = cargo.output().expect("cargo runs");
    let messages = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| messages.lines().find_map(executable)).flatten()
}

/// The binary that a message of cargo is about.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_ours = message["target"]["name"] == "bowline" && message["target"]["kind"][0] == "bin";
    is_ours.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

/// How this test was built.
struct Built {
    target: PathBuf,
    profile: String,
}

/// As its path tells: `target/debug/deps/suite-0123456789abcdef`.
fn built() -> Built {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("a test is in target/<profile>/deps");
    let target = folder.parent().expect("a profile has a folder in target").to_owned();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev".to_owned(),
        Some(name) => name.to_owned(),
    };
    Built { target, profile }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_about_the_server_names_it() {
        let message = |name: &str, kind: &str, path: &str| {
            format!(r#"{{"target":{{"name":"{name}","kind":["{kind}"]}},"executable":{path}}}"#)
        };
        let found = |message: &str| executable(message).map(|path| path.display().to_string());
        assert_eq!(found(&message("bowline", "bin", "\"/t/bowline\"")).unwrap(), "/t/bowline");
        assert_eq!(found(&message("bowline", "test", "\"/t/bowline-0\"")), None);
        assert_eq!(found(&message("other", "bin", "\"/t/other\"")), None);
        assert_eq!(found(&message("bowline", "bin", "null")), None);
        assert_eq!(found("Compiling"), None);
    }

    #[test]
    fn a_test_knows_where_it_was_built() {
        let Built { target, profile } = built();
        assert!(target.is_dir(), "{}", target.display());
        assert!(!profile.is_empty());
    }
}
