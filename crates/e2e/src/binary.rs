//! The binary under test.
//!
//! Cargo passes a test only the binaries of its own package, so this module builds the server once,
//! with the target directory and the profile of the test itself.
//!
//! With `BOWLINE_E2E_SERVER=/path/to/etcd` the same tests run against another server. Most of them
//! pass with etcd 3.7, which is how their expectations were found. Those about damaged files, the
//! end of streams, our own limits and unsupported flags do not.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Environment variable with the path of another server to test.
const OVERRIDE: &str = "BOWLINE_E2E_SERVER";

/// Returns the path of the server, after building it if necessary.
///
/// # Panics
///
/// If it cannot be built.
pub fn path() -> &'static Path {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || env::var_os(OVERRIDE).map_or_else(build, |path| Some(PathBuf::from(path)));
    PATH.get_or_init(find).as_deref().expect("build the server")
}

/// Builds the server. Returns none if that fails; cargo has printed why on stderr.
fn build() -> Option<PathBuf> {
    let BuildSettings { target, profile } = build_settings();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--workspace", "--bin", "bowline", "--profile", &profile]);
    cargo.args(["--message-format", "json-render-diagnostics"]).arg("--target-dir").arg(target);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = cargo.output().expect("start cargo");
    let messages = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| messages.lines().find_map(executable)).flatten()
}

/// Returns the path in a cargo message about the server binary.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_ours = message["target"]["name"] == "bowline" && message["target"]["kind"][0] == "bin";
    is_ours.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

/// The target directory and profile of this test.
struct BuildSettings {
    target: PathBuf,
    profile: String,
}

/// Derives the settings from the path of the test: `target/debug/deps/suite-0123456789abcdef`.
fn build_settings() -> BuildSettings {
    let test = env::current_exe().expect("path of the test");
    let profile_dir =
        test.parent().and_then(Path::parent).expect("tests are in target/<profile>/deps");
    let target = profile_dir.parent().expect("a profile is a directory in target").to_owned();
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev".to_owned(),
        Some(name) => name.to_owned(),
    };
    BuildSettings { target, profile }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_about_the_server_binary_yield_a_path() {
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
    fn target_directory_and_profile_are_found() {
        let BuildSettings { target, profile } = build_settings();
        assert!(target.is_dir(), "{}", target.display());
        assert!(!profile.is_empty());
    }
}
