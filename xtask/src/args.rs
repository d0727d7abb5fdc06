//! The command line: a command, then its options as `--name value` or `--name=value`.

use anyhow::{Context, Result, bail, ensure};

use crate::verify::{self, STEPS};

/// A parsed command line.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Verify(verify::Options),
    Fix,
    Edges,
    Hygiene,
    Sim(crate::sim::Options),
    RaftSim(crate::sim::Options),
    Crash { seeds: Option<u64> },
}

/// The help text.
pub(crate) fn usage() -> String {
    let width = STEPS.iter().map(|step| step.name.len()).max().unwrap_or_default();
    let steps: String =
        STEPS.iter().map(|step| format!("  {:width$}  {}\n", step.name, step.what)).collect();
    format!(
        "usage: cargo xtask <command>

verify    check everything, change nothing
  --only <step>     run only this step; repeatable, or a comma-separated list
  --skip <step>     skip this step; repeatable, or a comma-separated list
  --require-deny    fail where licenses or advisories could not be checked
fix       let clippy and rustfmt rewrite what they can
edges     compare the crates with ARCHITECTURE.md
hygiene   find unfinished code, disabled tests and bad prose
sim       simulate whole clusters with clients, in release mode, on all cores
  --seeds <n>       how many seeds
  --from <seed>     the first of them
raft-sim  simulate clusters of the consensus core, in release mode
  --seeds <n>       how many seeds
  --from <seed>     the first of them
  --keep-going      continue after a seed that fails
crash     cut the power of a simulated disk at every change, under bolt, wal, backend and server, in release mode
  --seeds <n>       how many workloads of each

steps of verify, in order:
{steps}"
    )
}

/// Parses the arguments.
pub(crate) fn parse(words: &[String]) -> Result<Command> {
    let Some((command, options)) = words.split_first() else { return Ok(Command::Help) };
    let mut options = Words(options.iter().map(String::as_str).collect());
    let command = match command.as_str() {
        "help" | "-h" | "--help" => Command::Help,
        "verify" => Command::Verify(verify_options(&mut options)?),
        "fix" => Command::Fix,
        "edges" => Command::Edges,
        "hygiene" => Command::Hygiene,
        "sim" => Command::Sim(crate::sim::Options {
            seeds: options.number("--seeds")?,
            from: options.number("--from")?,
            keep_going: true,
        }),
        "raft-sim" => Command::RaftSim(crate::sim::Options {
            seeds: options.number("--seeds")?,
            from: options.number("--from")?,
            keep_going: options.flag("--keep-going"),
        }),
        "crash" => Command::Crash { seeds: options.number("--seeds")? },
        other => bail!("no such command: {other}\n\n{}", usage()),
    };
    options.finish()?;
    Ok(command)
}

fn verify_options(options: &mut Words<'_>) -> Result<verify::Options> {
    let options = verify::Options {
        only: options.steps("--only")?,
        skip: options.steps("--skip")?,
        require_deny: options.flag("--require-deny"),
    };
    let chosen = STEPS.iter().filter(|step| options.chooses(step.name)).count();
    ensure!(chosen > 0, "--only and --skip leave no step to run");
    Ok(options)
}

/// The arguments that are not consumed yet. Any that remain at the end are an error.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn flag(&mut self, name: &str) -> bool {
        let found = self.0.iter().position(|word| *word == name);
        found.map(|at| self.0.remove(at)).is_some()
    }

    fn value(&mut self, name: &str) -> Result<Option<&'a str>> {
        let rest_of = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
        let joined = |word: &&'a str| rest_of(word).is_some();
        if let Some(at) = self.0.iter().position(joined) {
            return Ok(rest_of(self.0.remove(at)));
        }
        let Some(at) = self.0.iter().position(|word| *word == name) else { return Ok(None) };
        self.0.remove(at);
        ensure!(at < self.0.len(), "{name} needs a value");
        Ok(Some(self.0.remove(at)))
    }

    fn number(&mut self, name: &str) -> Result<Option<u64>> {
        let Some(text) = self.value(name)? else { return Ok(None) };
        text.parse().map(Some).with_context(|| format!("{name} {text}"))
    }

    /// Consumes all occurrences of an option that names steps, and checks the names.
    fn steps(&mut self, name: &str) -> Result<Vec<String>> {
        let mut steps = Vec::new();
        while let Some(list) = self.value(name)? {
            for step in list.split(',') {
                let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                ensure!(names.contains(&step), "{name} {step}: the steps are {}", names.join(", "));
                steps.push(step.to_owned());
            }
        }
        Ok(steps)
    }

    fn finish(self) -> Result<()> {
        match self.0.first() {
            Some(word) => bail!("unexpected argument: {word}\n\n{}", usage()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

    fn parsed(line: &str) -> Result<Command> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    fn rejected(line: &str) -> String {
        parsed(line).unwrap_err().to_string()
    }

    #[test]
    fn no_arguments_print_the_help() {
        assert_eq!(parsed("").unwrap(), Command::Help);
        assert!(STEPS.iter().all(|step| usage().contains(step.name)));
    }

    #[test]
    fn only_and_skip_select_steps() {
        let only = |line| match parsed(line).unwrap() {
            Command::Verify(options) => (options.only, options.skip, options.require_deny),
            other => panic!("{other:?}"),
        };
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(only("verify"), (vec![], vec![], false));
        assert_eq!(only("verify --only clippy"), (list(&["clippy"]), vec![], false));
        assert_eq!(only("verify --only=fmt,doc --only test").0, list(&["fmt", "doc", "test"]));
        assert_eq!(only("verify --skip test --require-deny"), (vec![], list(&["test"]), true));
    }

    #[test]
    fn unknown_steps_and_empty_selections_are_rejected() {
        assert!(
            rejected("verify --only clipy").starts_with("--only clipy: the steps are toolchain, ")
        );
        assert!(rejected("verify --only fmt --skip fmt").contains("no step"));
    }

    #[test]
    fn simulations_take_seed_numbers() {
        let full = sim::Options { seeds: Some(100), from: Some(7), keep_going: true };
        let line = "raft-sim --seeds 100 --from=7 --keep-going";
        assert_eq!(parsed(line).unwrap(), Command::RaftSim(full));
        assert_eq!(parsed("raft-sim").unwrap(), Command::RaftSim(sim::Options::default()));
        let one = sim::Options { seeds: Some(1), from: Some(7), keep_going: true };
        assert_eq!(parsed("sim --from 7 --seeds 1").unwrap(), Command::Sim(one));
        assert_eq!(rejected("raft-sim --seeds many"), "--seeds many");
        assert_eq!(rejected("raft-sim --seeds"), "--seeds needs a value");
    }

    #[test]
    fn unknown_commands_and_arguments_are_rejected() {
        assert!(rejected("verfy").starts_with("no such command: verfy"));
        assert!(rejected("fix --all").starts_with("unexpected argument: --all"));
    }
}
