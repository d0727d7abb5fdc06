//! Checks that the active toolchain is the pinned one.
//!
//! Lints and formatting differ between Rust releases, so a result of `verify` means something only
//! with the version in `workspace.metadata.toolchain` of the root manifest. Building needs no more
//! than `rust-version`.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::workspace::Workspace;

/// Fails unless the active rustc is the pinned version, with the command that installs it.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let metadata = workspace.cargo_output(&["metadata", "--no-deps", "--format-version", "1"])?;
    let pinned = pinned(&metadata)?;
    let active = workspace.rustc_version()?;
    ensure!(is_pinned(&active, &pinned), "{}", advice(&active, &pinned));
    println!("{}", active.trim());
    Ok(())
}

fn pinned(metadata: &str) -> Result<String> {
    let metadata: Value = serde_json::from_str(metadata).context("parse cargo metadata")?;
    let pinned = metadata["metadata"]["toolchain"].as_str();
    pinned.map(str::to_owned).context("Cargo.toml has no workspace.metadata.toolchain")
}

/// `active` is the output of `rustc --version`.
fn is_pinned(active: &str, pinned: &str) -> bool {
    active.split_whitespace().nth(1) == Some(pinned)
}

fn advice(active: &str, pinned: &str) -> String {
    format!(
        "{} is active, but lints and formatting are checked with {pinned}.\n\
         Install it: rustup toolchain install {pinned} --component rustfmt,clippy\n\
         Then run:   cargo +{pinned} xtask verify",
        active.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: &str = "rustc 1.95.0 (59807616e 2026-04-14)\n";

    #[test]
    fn the_version_must_match_exactly() {
        assert!(is_pinned(ACTIVE, "1.95.0"));
        assert!(!is_pinned(ACTIVE, "1.95"));
        assert!(!is_pinned("rustc 1.96.0-nightly (x)", "1.96.0"));
        assert!(!is_pinned("", "1.95.0"));
    }

    #[test]
    fn a_mismatch_names_the_command_that_helps() {
        let advice = advice(ACTIVE, "1.97.1");
        assert!(advice.starts_with("rustc 1.95.0 (59807616e 2026-04-14) is active"), "{advice}");
        assert!(advice.contains("rustup toolchain install 1.97.1"), "{advice}");
    }

    #[test]
    fn the_pin_is_read_from_the_manifest() {
        assert_eq!(pinned(r#"{"metadata": {"toolchain": "1.95.0"}}"#).unwrap(), "1.95.0");
        assert!(pinned(r#"{"metadata": null}"#).is_err());
    }
}
