//! The logs of a whole process: what it leaves behind on its outputs, also when it panics or nobody reads.
//!
//! Only one logger fits into a process, so each test starts this very program again to play the process, and looks at what it
//! wrote. `ROLE` tells the two apart.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

use logging::{Format, Level, LogConfig, LogGuard, Output, Rotation, StartError};
use serde_json::Value;
use tracing::{debug, error, info, warn};

/// Set in the process that is looked at: the folder that it may write to.
const ROLE: &str = "BOWLINE_LOGGING_TEST_FOLDER";
const LONG: Duration = Duration::from_secs(30);

/// The folder, in the process that is looked at.
fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

fn command(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the name of this program"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ROLE, folder).env_remove("NOTIFY_SOCKET").env("TZ", "UTC");
    command
}

fn output(command: &mut Command) -> process::Output {
    command.stdin(Stdio::null()).output().expect("run this program again")
}

fn start(outputs: &[Output]) -> LogGuard {
    let config = LogConfig { outputs: outputs.to_vec(), ..LogConfig::default() };
    logging::start(&config).expect("start the logs")
}

fn file(folder: &str, name: &str) -> Output {
    Output::File(format!("{folder}/{name}"))
}

fn parsed(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn lines_of(output: &process::Output) -> Vec<Value> {
    parsed(std::str::from_utf8(&output.stderr).expect("lines are UTF-8"))
}

#[test]
fn standard_error_is_the_default_and_the_zone_is_the_machines() {
    if role().is_some() {
        let _logs = start(&[]);
        info!(target: "node", data_dir = "default.etcd", "opened");
        debug!(target: "node", "hidden");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command =
        command("standard_error_is_the_default_and_the_zone_is_the_machines", folder.path());
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
fn several_outputs_get_the_same_lines_and_logging_starts_once() {
    if let Some(folder) = role() {
        let logs = start(&[Output::Stderr, file(&folder, "a.log"), file(&folder, "b.log")]);
        let again = logging::start(&LogConfig::default());
        assert!(matches!(again, Err(StartError::AlreadyStarted)));
        warn!("once");
        assert!(logs.flush(LONG));
        std::process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "several_outputs_get_the_same_lines_and_logging_starts_once";
    let output = output(&mut command(name, folder.path()));
    let lines = lines_of(&output);
    assert_eq!(lines.len(), 1);
    for file in ["a.log", "b.log"] {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(parsed(&text), lines);
    }
}

#[test]
fn a_panic_is_in_the_log_before_the_process_is_gone() {
    if let Some(folder) = role() {
        let _logs = start(&[file(&folder, "etcd.log")]);
        warn!("before");
        let apply = thread::Builder::new().name("apply".to_owned());
        let ended = apply.spawn(|| panic!("index {} is gone", 7)).unwrap().join();
        assert!(ended.is_err());
        // Nothing is dropped or flushed from here on.
        std::process::abort();
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "a_panic_is_in_the_log_before_the_process_is_gone";
    let output = output(&mut command(name, folder.path()));
    let lines = parsed(&fs::read_to_string(folder.path().join("etcd.log")).unwrap());
    assert_eq!(lines[0]["msg"], "before");
    assert_eq!(
        (&lines[1]["level"], &lines[1]["msg"]),
        (&"panic".into(), &"index 7 is gone".into())
    );
    assert_eq!(lines[1]["thread"], "apply");
    assert!(lines[1]["caller"].as_str().unwrap().starts_with("logging/main.rs:"));
    assert!(lines[1]["stacktrace"].as_str().unwrap().contains("a_panic_is_in_the_log"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("index 7 is gone"), "the usual words are there too: {stderr}");
}

#[test]
fn a_panic_is_logged_once_on_standard_error_whatever_the_level() {
    if role().is_some() {
        let config = LogConfig { level: Level::Fatal, ..LogConfig::default() };
        let _logs = logging::start(&config).unwrap();
        error!("hidden");
        assert!(thread::spawn(|| panic!("boom")).join().is_err());
        error!(target: logging::FATAL_TARGET, "last");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "a_panic_is_logged_once_on_standard_error_whatever_the_level";
    let lines = lines_of(&output(&mut command(name, folder.path())));
    let levels: Vec<_> = lines.iter().map(|line| &line["level"]).collect();
    assert_eq!(levels, ["panic", "fatal"]);
    assert_eq!(lines[0]["msg"], "boom");
}

#[test]
fn an_output_that_nobody_reads_holds_nothing_up() {
    if let Some(folder) = role() {
        let logs = start(&[Output::Stderr]);
        // More than the pipe and the queue can hold; each message differs, so none is sampled away.
        (0..40_000).for_each(|nth| warn!("line {nth} {}", "x".repeat(100)));
        fs::write(format!("{folder}/dropped"), logs.dropped().to_string()).unwrap();
        assert!(!logs.flush(Duration::from_millis(20)));
        std::process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("an_output_that_nobody_reads_holds_nothing_up", folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Waiting leaves the pipe of standard error alone: it is read by nobody.
    assert!(child.wait().unwrap().success());
    let dropped = fs::read_to_string(folder.path().join("dropped")).unwrap();
    let dropped: u64 = dropped.parse().unwrap();
    assert!((20_000..25_000).contains(&dropped), "{dropped}");
}

#[test]
fn a_rotated_file_is_set_aside_at_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let config = LogConfig {
        format: Format::Console,
        outputs: vec![file(folder.path().to_str().unwrap(), "etcd.log")],
        rotation: Some(Rotation { size_mb_max: 1, backups_max: 2, ..Rotation::default() }),
        ..LogConfig::default()
    };
    let (dispatch, logs) = logging::build(&config).unwrap();
    tracing::dispatcher::with_default(&dispatch, || {
        for nth in 0..4 * 1024 {
            warn!("line {nth} {}", "x".repeat(1000));
            // So that none is dropped: this is about the files.
            assert!(nth % 512 != 0 || logs.flush(LONG));
        }
    });
    assert!(logs.flush(LONG));
    assert_eq!(logs.dropped(), 0);
    let sizes: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    assert_eq!(sizes.len(), 3, "the file and two backups");
    assert!(sizes.iter().all(|size| *size <= 1024 * 1024));
}

#[test]
fn systemd_is_told_that_the_member_serves() {
    if role().is_some() {
        let _logs = start(&[]);
        logging::notify_ready();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = command("systemd_is_told_that_the_member_serves", folder.path());
    let lines = lines_of(&output(command.env("NOTIFY_SOCKET", &path)));
    let mut said = [0; 16];
    let len = socket.recv(&mut said).unwrap();
    assert_eq!(&said[..len], b"READY=1");
    let messages: Vec<_> = lines.iter().map(|line| &line["msg"]).collect();
    assert_eq!(messages, ["notifying init daemon", "successfully notified init daemon"]);
}

#[test]
fn compression_is_refused_rather_than_ignored() {
    let rotation = Some(Rotation { compress: true, ..Rotation::default() });
    let refused = logging::build(&LogConfig { rotation, ..LogConfig::default() });
    assert!(matches!(refused, Err(StartError::Compress)));
}
