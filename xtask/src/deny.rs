//! Licenses, sources and advisories of dependencies, checked by cargo-deny with `deny.toml`.
//!
//! cargo-deny takes minutes to build, and the advisory database needs the network. A machine
//! without them skips the step and reports it; `--require-deny` turns that into a failure.

use anyhow::{Result, bail};

use crate::verify::Outcome;
use crate::workspace::Workspace;

/// Runs cargo-deny as far as this machine allows.
pub(crate) fn check(workspace: &Workspace, required: bool) -> Result<Outcome> {
    if workspace.cargo_quiet(&["deny", "--version"]).is_none() {
        let why = "cargo-deny is not installed (cargo install --locked cargo-deny)";
        return skip(required, why);
    }
    workspace.cargo(&["deny", "check", "licenses", "bans", "sources"])?;
    if workspace.cargo_quiet(&["deny", "fetch", "db"]).is_none() {
        return skip(required, "the advisory database could not be fetched; the rest passed");
    }
    workspace.cargo(&["deny", "check", "advisories"])?;
    Ok(Outcome::Passed)
}

fn skip(required: bool, why: &str) -> Result<Outcome> {
    if required {
        bail!("{why}");
    }
    Ok(Outcome::Skipped(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_check_is_not_skipped() {
        assert!(matches!(skip(false, "no tool"), Ok(Outcome::Skipped(why)) if why == "no tool"));
        assert!(skip(true, "no tool").is_err_and(|error| error.to_string() == "no tool"));
    }
}
