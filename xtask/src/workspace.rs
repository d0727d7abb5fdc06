//! The workspace on disk, and cargo commands in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};

/// The root of the workspace and the cargo to run there.
pub(crate) struct Workspace {
    /// The directory of the root manifest.
    pub(crate) root: PathBuf,
    cargo: OsString,
}

impl Workspace {
    /// Finds the workspace that this program was built from.
    pub(crate) fn find() -> Result<Workspace> {
        // Cargo sets both variables; the fallbacks serve a direct call of the binary.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root =
            Path::new(&manifest).parent().context("xtask has no parent directory")?.to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Workspace { root, cargo })
    }

    /// Runs cargo with inherited output. A non-zero exit is an error.
    pub(crate) fn cargo(&self, args: &[&str]) -> Result<()> {
        self.cargo_with(args, &[])
    }

    /// Runs cargo as [`Workspace::cargo`] does, with additional environment variables.
    pub(crate) fn cargo_with(&self, args: &[&str], envs: &[(&str, &str)]) -> Result<()> {
        let status = self.cargo_status(args, envs)?;
        ensure!(status.success(), "`cargo {}`: {status}", args.join(" "));
        Ok(())
    }

    /// Runs cargo and returns its exit status.
    pub(crate) fn cargo_status(&self, args: &[&str], envs: &[(&str, &str)]) -> Result<ExitStatus> {
        let set: String = envs.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
        println!("$ {set}cargo {}", args.join(" "));
        let mut command = self.command(args);
        command.envs(envs.iter().copied()).status().context("start cargo")
    }

    /// Returns the output of `rustc --version` of the active toolchain.
    pub(crate) fn rustc_version(&self) -> Result<String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        let output = command.arg("--version").current_dir(&self.root).output();
        let output = output.context("start rustc")?;
        String::from_utf8(output.stdout).context("decode rustc's output")
    }

    /// Runs cargo quietly and returns its output, or none if it failed.
    pub(crate) fn cargo_quiet(&self, args: &[&str]) -> Option<String> {
        let output = self.command(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs cargo and returns its output. A failure is an error with cargo's standard error.
    pub(crate) fn cargo_output(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output().context("start cargo")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`cargo {}`: {}", args.join(" "), stderr.trim());
        String::from_utf8(output.stdout).context("decode cargo's output")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(args).current_dir(&self.root);
        command
    }
}
