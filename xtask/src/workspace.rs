//! The workspace on disk, and cargo run in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};

/// Where the workspace lies and which cargo serves it.
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    cargo: OsString,
}

impl Workspace {
    /// The workspace this program belongs to.
    pub(crate) fn find() -> Result<Workspace> {
        // Cargo sets both for the programs it runs; the fallbacks serve a direct call of the binary.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest).parent().context("xtask lies in the workspace")?.to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Workspace { root, cargo })
    }

    /// Runs cargo with its output going to the terminal; anything but success is an error.
    pub(crate) fn cargo(&self, args: &[&str]) -> Result<()> {
        self.cargo_with(args, &[])
    }

    /// As [`Workspace::cargo`], with additions to the environment.
    pub(crate) fn cargo_with(&self, args: &[&str], envs: &[(&str, &str)]) -> Result<()> {
        let status = self.cargo_status(args, envs)?;
        ensure!(status.success(), "`cargo {}`: {status}", args.join(" "));
        Ok(())
    }

    /// As [`Workspace::cargo_with`], but leaves the judgement to the caller.
    pub(crate) fn cargo_status(&self, args: &[&str], envs: &[(&str, &str)]) -> Result<ExitStatus> {
        let set: String = envs.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
        println!("$ {set}cargo {}", args.join(" "));
        let mut command = self.command(args);
        command.envs(envs.iter().copied()).status().context("start cargo")
    }

    /// Runs cargo in silence and returns what it printed; none if it failed.
    pub(crate) fn cargo_quiet(&self, args: &[&str]) -> Option<String> {
        let output = self.command(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs cargo and returns what it printed; failure is an error that holds its complaint.
    pub(crate) fn cargo_output(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output().context("start cargo")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`cargo {}`: {}", args.join(" "), complaint.trim());
        String::from_utf8(output.stdout).context("read what cargo printed")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(args).current_dir(&self.root);
        command
    }
}
