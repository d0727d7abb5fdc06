//! `cargo xtask verify`: every check, cheap ones first, up to the first failure.

use std::time::Instant;

use anyhow::{Error, Result, bail};

use crate::workspace::Workspace;
use crate::{deny, edges, hygiene, toolchain};

/// The choice of steps.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Runs only these steps, unless empty.
    pub(crate) only: Vec<String>,
    /// Skips these steps.
    pub(crate) skip: Vec<String>,
    /// Fails if the `deny` step cannot run in full.
    pub(crate) require_deny: bool,
}

impl Options {
    /// Whether the named step runs.
    pub(crate) fn chooses(&self, step: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == step);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// A named check.
pub(crate) struct Step {
    /// Name for `--only` and `--skip`.
    pub(crate) name: &'static str,
    /// Description for the output.
    pub(crate) what: &'static str,
    run: fn(&Workspace, &Options) -> Result<Outcome>,
}

/// The result of a step that did not fail.
pub(crate) enum Outcome {
    /// The whole step ran.
    Passed,
    /// Part of the step could not run here, for this reason.
    Skipped(String),
}

/// The steps, in the order they run.
pub(crate) const STEPS: [Step; 9] = [
    Step { name: "toolchain", what: "rustc is the pinned version", run: rustc },
    Step { name: "fmt", what: "the code is formatted", run: fmt },
    Step { name: "hygiene", what: "no unfinished code, disabled tests or bad prose", run: tidy },
    Step { name: "edges", what: "the crates match ARCHITECTURE.md", run: map },
    Step { name: "clippy", what: "no warnings", run: clippy },
    Step { name: "doc", what: "the documentation builds and its links hold", run: doc },
    Step { name: "test", what: "the tests pass", run: test },
    Step {
        name: "failpoints",
        what: "clippy and the tests of failpoints, with failpoints on",
        run: failpoints,
    },
    Step { name: "deny", what: "licenses, sources and advisories of dependencies", run: deps },
];

/// Runs the chosen steps.
pub(crate) fn verify(workspace: &Workspace, options: &Options) -> Result<()> {
    let all = Instant::now();
    let mut skipped = Vec::new();
    for step in STEPS.iter().filter(|step| options.chooses(step.name)) {
        println!("=== {}: {}", step.name, step.what);
        let start = Instant::now();
        let outcome = (step.run)(workspace, options);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(Outcome::Passed) => println!("=== {}: passed in {seconds:.1} s\n", step.name),
            Ok(Outcome::Skipped(why)) => {
                println!("=== {}: SKIPPED: {why}\n", step.name);
                skipped.push(step.name);
            }
            Err(error) => bail!("{}", failure(step.name, options, seconds, &error)),
        }
    }
    let but = if skipped.is_empty() { String::new() } else { format!(", but for {skipped:?}") };
    println!("verified in {:.1} s{but}", all.elapsed().as_secs_f64());
    Ok(())
}

/// Formats a failure. The command that repeats the step comes last, where it is seen.
fn failure(step: &str, options: &Options, seconds: f64, error: &Error) -> String {
    let deny = if step == "deny" && options.require_deny { " --require-deny" } else { "" };
    let repeat = format!("cargo xtask verify --only {step}{deny}");
    format!("{step} FAILED after {seconds:.1} s\n{error:#}\nrepeat this step alone: {repeat}")
}

fn rustc(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    toolchain::check(workspace)?;
    Ok(Outcome::Passed)
}

fn fmt(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    workspace.cargo(&["fmt", "--all", "--check"])?;
    Ok(Outcome::Passed)
}

fn tidy(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    hygiene::check(&workspace.root)?;
    Ok(Outcome::Passed)
}

fn map(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    edges::check(workspace)?;
    Ok(Outcome::Passed)
}

fn clippy(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    workspace.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // Again without tests, which enable features that the product is built without.
    workspace.cargo(&["clippy", "--workspace", "--", "-D", "warnings"])?;
    Ok(Outcome::Passed)
}

fn doc(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    workspace.cargo_with(&["doc", "--workspace", "--no-deps"], &strict)?;
    Ok(Outcome::Passed)
}

fn test(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    workspace.cargo(&["test", "--workspace"])?;
    Ok(Outcome::Passed)
}

/// Checks the feature `failpoints`, which no other step enables.
fn failpoints(workspace: &Workspace, _: &Options) -> Result<Outcome> {
    let features = ["--features", "node/failpoints"];
    let strict = ["--all-targets", "--", "-D", "warnings"];
    workspace.cargo(&[&["clippy", "-p", "node"], &features[..], &strict].concat())?;
    let features = ["--features", "failpoint/failpoints,bolt/failpoints"];
    let tests = ["test", "-p", "failpoint", "-p", "bolt", "--test", "on", "--test", "failpoints"];
    workspace.cargo(&[&tests[..], &features].concat())?;
    Ok(Outcome::Passed)
}

fn deps(workspace: &Workspace, options: &Options) -> Result<Outcome> {
    deny::check(workspace, options.require_deny)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: &[&str], skip: &[&str]) -> Vec<&'static str> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let options = Options { only: owned(only), skip: owned(skip), require_deny: false };
        STEPS.iter().map(|step| step.name).filter(|name| options.chooses(name)).collect()
    }

    #[test]
    fn all_steps_run_by_default() {
        assert_eq!(chosen(&[], &[]).len(), STEPS.len());
    }

    #[test]
    fn only_and_skip_choose() {
        assert_eq!(chosen(&["clippy", "fmt"], &[]), ["fmt", "clippy"]);
        assert_eq!(chosen(&["clippy", "fmt"], &["fmt"]), ["clippy"]);
        assert!(!chosen(&[], &["test"]).contains(&"test"));
    }

    #[test]
    fn a_failure_names_the_step_and_how_to_repeat_it() {
        let options = Options { require_deny: true, ..Options::default() };
        let error = anyhow::anyhow!("two warnings");
        assert_eq!(
            failure("clippy", &options, 1.26, &error),
            "clippy FAILED after 1.3 s\ntwo warnings\n\
             repeat this step alone: cargo xtask verify --only clippy"
        );
        assert!(failure("deny", &options, 0.0, &error).ends_with("--only deny --require-deny"));
    }
}
