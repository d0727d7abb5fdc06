//! Log outputs that cannot be opened, reported by the whole process.
//!
//! A process has only one logger, so the test starts this program again as the process under test.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

/// Set in the process under test.
const ROLE: &str = "BOWLINE_LOG_OUTPUTS_TEST";

/// The expected texts are those of etcd 3.7, which reports this error before any other.
#[test]
fn an_output_that_cannot_be_opened_is_reported_on_stderr() {
    if std::env::var_os(ROLE).is_some() {
        let args = ["bowline", "--log-outputs=/nonexistent/x", "--heartbeat-interval=0"];
        let code = node::main(args.into_iter().map(OsString::from), std::iter::empty());
        assert_eq!(code, ExitCode::FAILURE);
        return;
    }
    let name = "an_output_that_cannot_be_opened_is_reported_on_stderr";
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ROLE, "1");
    let output = command.stdin(Stdio::null()).output().expect("the program starts again");
    let lines: Vec<Value> = String::from_utf8(output.stderr)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let [running, rejected] = &lines[..] else { panic!("expected two lines, got {lines:?}") };
    assert_eq!((&running["level"], &running["msg"]), (&"info".into(), &"Running: ".into()));
    assert_eq!(running["args"][1], "--log-outputs=/nonexistent/x");
    assert_eq!(
        (&rejected["level"], &rejected["msg"]),
        (&"warn".into(), &"failed to verify flags".into())
    );
    let error = "open sink \"/nonexistent/x\": open /nonexistent/x: no such file or directory";
    assert_eq!(rejected["error"], error);
}
