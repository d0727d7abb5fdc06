//! Logging of a whole process: its outputs, panics, and outputs that are not read.
//!
//! A process has only one logger, so each test starts this program again as the process under test
//! and reads its output. The variable `ROLE` marks that process.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

use logging::{Format, Level, LogConfig, LogGuard, Output, Rotation, StartError};
use serde_json::Value;
use testkit::waiting::wait_until;
use tracing::{debug, error, info, warn};

/// Set in the process under test to the directory that it may write to.
const ROLE: &str = "BOWLINE_LOGGING_TEST_DIR";
const LONG: Duration = Duration::from_secs(30);

/// Returns the directory if this is the process under test.
fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

fn command(test: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ROLE, dir).env_remove("NOTIFY_SOCKET").env("TZ", "UTC");
    command
}

fn output(command: &mut Command) -> process::Output {
    command.stdin(Stdio::null()).output().expect("the program starts again")
}

fn start(outputs: &[Output]) -> LogGuard {
    let config = LogConfig { outputs: outputs.to_vec(), ..LogConfig::default() };
    logging::start(&config).expect("logging starts")
}

fn file(dir: &str, name: &str) -> Output {
    Output::File(format!("{dir}/{name}"))
}

fn parsed(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn lines_of(output: &process::Output) -> Vec<Value> {
    parsed(std::str::from_utf8(&output.stderr).expect("lines are UTF-8"))
}

#[test]
fn the_default_is_stderr_and_the_system_time_zone() {
    if role().is_some() {
        let _logs = start(&[]);
        info!(target: "node", data_dir = "default.etcd", "opened");
        debug!(target: "node", "hidden");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = command("the_default_is_stderr_and_the_system_time_zone", dir.path());
    let lines = lines_of(&output(command.env("TZ", "CET-1")));
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["msg"], &lines[0]["data-dir"]),
        (&"opened".into(), &"default.etcd".into())
    );
    assert!(lines[0]["ts"].as_str().unwrap().ends_with("+0100"));
    assert!(lines[0]["caller"].as_str().unwrap().starts_with("logging/main.rs:"));
}

#[test]
fn all_outputs_get_the_same_lines_and_logging_starts_once() {
    if let Some(dir) = role() {
        let logs = start(&[Output::Stderr, file(&dir, "a.log"), file(&dir, "b.log")]);
        let again = logging::start(&LogConfig::default());
        assert!(matches!(again, Err(StartError::AlreadyStarted)));
        warn!("once");
        assert!(logs.flush(LONG));
        std::process::exit(0);
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "all_outputs_get_the_same_lines_and_logging_starts_once";
    let output = output(&mut command(name, dir.path()));
    let lines = lines_of(&output);
    assert_eq!(lines.len(), 1);
    for file in ["a.log", "b.log"] {
        let text = fs::read_to_string(dir.path().join(file)).unwrap();
        assert_eq!(parsed(&text), lines);
    }
}

#[test]
fn a_panic_is_logged_before_the_process_ends() {
    if let Some(dir) = role() {
        let _logs = start(&[file(&dir, "etcd.log")]);
        warn!("before");
        let apply = thread::Builder::new().name("apply".to_owned());
        let ended = apply.spawn(|| panic!("index {} is gone", 7)).unwrap().join();
        assert!(ended.is_err());
        // Nothing is dropped or flushed after this.
        std::process::abort();
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "a_panic_is_logged_before_the_process_ends";
    let output = output(&mut command(name, dir.path()));
    let lines = parsed(&fs::read_to_string(dir.path().join("etcd.log")).unwrap());
    assert_eq!(lines[0]["msg"], "before");
    assert_eq!(
        (&lines[1]["level"], &lines[1]["msg"]),
        (&"panic".into(), &"index 7 is gone".into())
    );
    assert_eq!(lines[1]["thread"], "apply");
    assert!(lines[1]["caller"].as_str().unwrap().starts_with("logging/main.rs:"));
    assert!(lines[1]["stacktrace"].as_str().unwrap().contains("a_panic_is_logged"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("index 7 is gone"),
        "the previous hook printed the panic too: {stderr}"
    );
}

#[test]
fn a_panic_is_logged_once_on_stderr_at_any_level() {
    if role().is_some() {
        let config = LogConfig { level: Level::Fatal, ..LogConfig::default() };
        let _logs = logging::start(&config).unwrap();
        error!("hidden");
        assert!(thread::spawn(|| panic!("boom")).join().is_err());
        error!(target: logging::FATAL_TARGET, "last");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "a_panic_is_logged_once_on_stderr_at_any_level";
    let lines = lines_of(&output(&mut command(name, dir.path())));
    let levels: Vec<_> = lines.iter().map(|line| &line["level"]).collect();
    assert_eq!(levels, ["panic", "fatal"]);
    assert_eq!(lines[0]["msg"], "boom");
}

#[test]
fn an_output_that_is_not_read_blocks_no_logger() {
    if let Some(dir) = role() {
        let logs = start(&[Output::Stderr]);
        // More than the pipe and the queue can hold; each message differs, so none is sampled away.
        (0..40_000).for_each(|nth| warn!("line {nth} {}", "x".repeat(100)));
        fs::write(format!("{dir}/dropped"), logs.dropped().to_string()).unwrap();
        assert!(!logs.flush(Duration::from_millis(20)));
        std::process::exit(0);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = command("an_output_that_is_not_read_blocks_no_logger", dir.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Waiting does not read the pipe of standard error.
    let mut status = None;
    wait_until("the process under test has ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());
    let dropped = fs::read_to_string(dir.path().join("dropped")).unwrap();
    let dropped: u64 = dropped.parse().unwrap();
    assert!((20_000..25_000).contains(&dropped), "{dropped}");
}

#[test]
fn a_file_is_rotated_at_its_maximum_size() {
    let dir = tempfile::tempdir().unwrap();
    let config = LogConfig {
        format: Format::Console,
        outputs: vec![file(dir.path().to_str().unwrap(), "etcd.log")],
        rotation: Some(Rotation { size_mb_max: 1, backups_max: 2, ..Rotation::default() }),
        ..LogConfig::default()
    };
    let (dispatch, logs) = logging::build(&config).unwrap();
    tracing::dispatcher::with_default(&dispatch, || {
        for nth in 0..4 * 1024 {
            warn!("line {nth} {}", "x".repeat(1000));
            // Flush, so that the queue drops nothing.
            assert!(nth % 512 != 0 || logs.flush(LONG));
        }
    });
    assert!(logs.flush(LONG));
    assert_eq!(logs.dropped(), 0);
    let sizes: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    assert_eq!(sizes.len(), 3, "the file and two backups");
    assert!(sizes.iter().all(|size| *size <= 1024 * 1024));
}

#[test]
fn systemd_is_notified_when_the_member_serves() {
    if role().is_some() {
        let _logs = start(&[]);
        logging::notify_ready();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = command("systemd_is_notified_when_the_member_serves", dir.path());
    let lines = lines_of(&output(command.env("NOTIFY_SOCKET", &path)));
    let mut received = [0; 16];
    let len = socket.recv(&mut received).unwrap();
    assert_eq!(&received[..len], b"READY=1");
    let messages: Vec<_> = lines.iter().map(|line| &line["msg"]).collect();
    assert_eq!(messages, ["notifying init daemon", "successfully notified init daemon"]);
}
