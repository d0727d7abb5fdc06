//! Tests of the runner, on small files in a temporary directory.

use super::*;

/// A directory that looks like the crates of a workspace, removed with the test.
struct ScriptDir(PathBuf);

impl ScriptDir {
    /// `test` makes the directory unique among concurrent tests.
    fn new(test: &str, files: &[(&str, &str)]) -> ScriptDir {
        let name = format!("bowline-testkit-{}-{test}", std::process::id());
        let dir = ScriptDir(env::temp_dir().join(name));
        for (path, text) in files {
            let path = dir.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn rewriter(&self) -> Runner {
        Runner { rewrite_in: Some(self.path("crates")), ..Runner::default() }
    }
}

impl Drop for ScriptDir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A handler that counts the cases it has seen: `echo` gives its input, `count` the number.
fn counter() -> impl FnMut(&Case) -> String {
    let mut seen = 0;
    move |case| {
        seen += 1;
        match case.cmd.as_str() {
            "echo" => case.input.clone(),
            "count" => format!("case {seen}"),
            other => case.fail(format_args!("no such command: {other}")),
        }
    }
}

const GOOD: &str = "# Good.\necho\nhi\n----\nhi\n\necho\n----\n\ncount\n----\ncase 3\n";

#[test]
fn all_cases_of_a_good_file_are_counted() {
    let dir = ScriptDir::new("good", &[("good", GOOD)]);
    assert_eq!(Runner::default().try_run(dir.path("good"), counter()).unwrap(), 3);
}

#[test]
fn every_mismatch_of_a_file_is_reported() {
    let text = "echo\nhi\n----\nho\n\ncount\n----\ncase 2\n\necho x=1\none\ntwo\n----\none\n";
    let dir = ScriptDir::new("mismatch", &[("bad", text)]);
    let error = Runner::default().try_run(dir.path("bad"), counter()).unwrap_err();
    let file = dir.path("bad").display().to_string();
    assert_eq!(
        error.to_string(),
        format!(
            "2 of 3 cases differ (- expected, + actual)\n\n\
             {file}:1: echo\n  - ho\n  + hi\n\n\
             {file}:10: echo x=1\n    one\n  + two\n"
        )
    );
}

#[test]
#[should_panic(expected = "1 of 1 cases differ")]
fn a_mismatch_fails_the_test() {
    let dir = ScriptDir::new("fails", &[("bad", "echo\nhi\n----\nhi \n")]);
    Runner::default().run(dir.path("bad"), counter());
}

#[test]
#[should_panic(expected = "bad:1: what: no such command: what")]
fn an_unknown_command_fails_the_test() {
    let dir = ScriptDir::new("unknown", &[("bad", "what\n----\n")]);
    Runner::default().run(dir.path("bad"), counter());
}

#[test]
fn missing_output_and_unexpected_output_are_mismatches() {
    let dir = ScriptDir::new("empty", &[("a", "echo\n----\nhi\n"), ("b", "echo\nhi\n----\n")]);
    for file in ["a", "b"] {
        let error = Runner::default().try_run(dir.path(file), counter()).unwrap_err();
        assert!(matches!(error, RunError::Differ { ran: 1, .. }), "{error}");
    }
}

#[test]
fn the_normalizer_sees_both_sides() {
    let text = "echo\nx\n  DEBUG mine\n----\n  INFO theirs\nx\n";
    let dir = ScriptDir::new("normalize", &[("a", text)]);
    let runner = Runner::default().normalize(without_log_lines);
    assert_eq!(runner.try_run(dir.path("a"), counter()).unwrap(), 1);
    assert!(Runner::default().try_run(dir.path("a"), counter()).is_err());
}

#[test]
fn lines_that_begin_with_a_level_are_log_lines() {
    let output = "INFO a\nkept INFO\n  WARN b\n\n\tERROR c\nDEBUG\nINFORM\nERROR: kept\n";
    assert_eq!(without_log_lines(output), "kept INFO\n\nINFORM\nERROR: kept\n");
}

#[test]
fn a_directory_runs_in_order_with_a_fresh_handler_per_file() {
    let one = "count\n----\ncase 1\n";
    let files = [("z/b", one), ("a", one), ("z/a", one), ("README.md", "x"), (".hidden", "x")];
    let dir = ScriptDir::new("dir", &files);
    let mut seen = Vec::new();
    for path in scripts_under(&dir.0).unwrap() {
        seen.push(path.strip_prefix(&dir.0).unwrap().display().to_string());
    }
    assert_eq!(seen, ["a", "z/a", "z/b"]);
    assert_eq!(Runner::default().try_run_dir(&dir.0, counter).unwrap(), 3);
}

#[test]
fn mismatches_of_all_files_of_a_directory_are_reported() {
    let bad = "echo\n----\nx\n";
    let dir = ScriptDir::new("dirbad", &[("a", bad), ("b", GOOD), ("c", bad)]);
    match Runner::default().try_run_dir(&dir.0, counter).unwrap_err() {
        RunError::Differ { mismatches, ran: 5 } => assert_eq!(mismatches.len(), 2),
        other => panic!("{other}"),
    }
}

#[test]
fn a_directory_or_file_without_cases_fails() {
    let dir = ScriptDir::new("none", &[("a/README.md", "x"), ("b/empty", "# Nothing.\n")]);
    for name in ["a", "b"] {
        let error = Runner::default().try_run_dir(dir.path(name), counter).unwrap_err();
        assert!(matches!(error, RunError::NoCases { .. }), "{error}");
    }
    let error = Runner::default().try_run_dir(dir.path("c"), counter).unwrap_err();
    assert!(matches!(error, RunError::Read { .. }), "{error}");
}

#[test]
fn a_broken_file_is_named() {
    let dir = ScriptDir::new("broken", &[("a", "echo\n")]);
    let error = Runner::default().try_run(dir.path("a"), counter()).unwrap_err();
    let file = dir.path("a").display().to_string();
    assert_eq!(error.to_string(), format!("{file}: line 1: no ---- follows this directive"));
}

#[test]
fn rewriting_puts_actual_output_into_our_files() {
    let path = "crates/raft/testdata/area/a";
    let text = "# Why.\n\n\necho  x=( 1 )\nhi\n----\nold\n\n\n# Then.\ncount\n----";
    let dir = ScriptDir::new("rewrite", &[(path, text)]);
    assert_eq!(dir.rewriter().try_run(dir.path(path), counter()).unwrap(), 2);
    let expected = "# Why.\n\n\necho  x=( 1 )\nhi\n----\nhi\n\n\n# Then.\ncount\n----\ncase 2\n";
    assert_eq!(dir.text(path), expected);
    assert_eq!(Runner::default().try_run(dir.path(path), counter()).unwrap(), 2);
}

#[test]
fn rewriting_keeps_differences_that_the_normalizer_ignores() {
    let path = "crates/raft/testdata/a";
    let text = "echo\nx\n----\nINFO kept\nx\n\necho\ny\n----\nINFO gone\nx\n";
    let dir = ScriptDir::new("rewrite-normalized", &[(path, text)]);
    let runner = dir.rewriter().normalize(without_log_lines);
    assert_eq!(runner.try_run(dir.path(path), counter()).unwrap(), 2);
    assert_eq!(dir.text(path), "echo\nx\n----\nINFO kept\nx\n\necho\ny\n----\ny\n");
}

#[test]
fn files_outside_the_workspace_are_never_rewritten() {
    let bad = "echo\nhi\n----\nold\n";
    let paths = ["raft-cases/quorum/a", "crates/raft/tests/a", "elsewhere/raft/testdata/a"];
    let dir = ScriptDir::new("others", &paths.map(|path| (path, bad)));
    fs::create_dir_all(dir.path("crates")).unwrap();
    for path in paths {
        let error = dir.rewriter().try_run(dir.path(path), counter()).unwrap_err();
        assert!(matches!(error, RunError::Differ { .. }), "{error}");
        assert_eq!(dir.text(path), bad);
    }
}

#[test]
fn output_that_cannot_be_written_leaves_the_file_alone() {
    let path = "crates/raft/testdata/a";
    let bad = "echo\nhi\n----\nold\n";
    let dir = ScriptDir::new("unwritable", &[(path, bad)]);
    let separators = |_: &Case| "a\n----\n----\nb".to_owned();
    let error = dir.rewriter().try_run(dir.path(path), separators).unwrap_err();
    assert!(matches!(error, RunError::Rewrite { .. }), "{error}");
    assert_eq!(dir.text(path), bad);
}
