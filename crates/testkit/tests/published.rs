//! Parses all cases that etcd-io/raft publishes. Their content is tested by `raft`.

use std::fs;
use std::path::PathBuf;

use testkit::script::{self, Case, Script};

fn files(area: &str) -> Vec<PathBuf> {
    let Some(dir) = script::published(area) else { return Vec::new() };
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("read {}: {error}", dir.display()))
        .map(|entry| entry.expect("the directory was readable").path())
        .collect();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    files.sort();
    files
}

/// None of these files doubles a separator, so there are as many cases as `----` lines.
#[test]
fn every_separator_belongs_to_a_case() {
    for path in ["quorum", "confchange", "interaction"].into_iter().flat_map(files) {
        let text = fs::read_to_string(&path).unwrap();
        let script = Script::parse_as(&path.display().to_string(), &text).unwrap();
        let separators = text.lines().filter(|line| *line == "----").count();
        assert_eq!(script.cases().len(), separators, "{}", path.display());
        assert!(separators > 0, "{} holds no cases", path.display());
        assert!(script.cases().iter().all(|case| !case.expected.is_empty()), "{}", path.display());
        assert_eq!(script.rewrite(|case| Some(case.expected.clone())).unwrap(), text);
    }
}

/// A handler that returns the expected output passes, any other fails.
#[test]
fn every_published_case_runs() {
    for area in ["quorum", "confchange", "interaction"] {
        let Some(dir) = script::published(area) else { continue };
        let ran = script::run_dir(&dir, || |case: &Case| case.expected.clone());
        let error = script::Runner::default()
            .try_run_dir(&dir, || |case: &Case| format!("{}?", case.expected))
            .unwrap_err();
        match error {
            script::RunError::Differ { mismatches, .. } => assert_eq!(mismatches.len(), ran),
            other => panic!("{other}"),
        }
    }
}
