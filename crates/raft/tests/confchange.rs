//! Golden scripts for configurations: `simple`, `enter-joint` and `leave-joint`, with changes as
//! input.

use raft::confchange::{ChangedConfig, Changer, ConfChangeError};
use raft::tracker::ProgressTracker;
use testkit::script::{self, Case, Runner};
use types::Index;

#[path = "interaction/changes.rs"]
mod changes;

#[test]
fn own_scripts_produce_their_traces() {
    let cases = run_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/confchange"));
    println!("{cases} own cases");
}

#[test]
fn etcds_scripts_produce_their_traces() {
    if let Some(dir) = script::published("confchange") {
        println!("{} published cases", run_dir(dir));
    }
}

fn run_dir(dir: impl AsRef<std::path::Path>) -> usize {
    Runner::from_env().run_dir(dir, || {
        let mut tracker = ProgressTracker::new(10, 0);
        // Grows with every command, to show when the progress of a member was created.
        let mut last_index = Index::ZERO;
        move |case: &Case| {
            let output = match changed(&tracker, last_index, case) {
                Ok(changed) => {
                    (tracker.config, tracker.progress) = changed;
                    format!("{}\n{}", tracker.config, tracker.progress)
                }
                Err(error) => format!("{error}\n"),
            };
            last_index = last_index.next();
            output
        }
    })
}

fn changed(
    tracker: &ProgressTracker,
    last_index: Index,
    case: &Case,
) -> Result<ChangedConfig, String> {
    case.allow(&["autoleave"]);
    let changes = changes::parse(&case.input)?;
    let changer = Changer { tracker, last_index };
    let result: Result<ChangedConfig, ConfChangeError> = match case.cmd.as_str() {
        "simple" => changer.simple(&changes),
        "enter-joint" => changer.enter_joint(case.flag("autoleave"), &changes),
        "leave-joint" if !changes.is_empty() => {
            return Err("this command takes no input".to_owned());
        }
        "leave-joint" => changer.leave_joint(),
        _ => case.fail("unknown command"),
    };
    result.map_err(|error| error.to_string())
}
