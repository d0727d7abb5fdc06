//! The log: outputs, formats and levels.

use std::fs;
use std::io::Read as _;
use std::os::unix::net::UnixDatagram;

use e2e::{Member, Options, Sandbox, TIMEOUT, http};
use flate2::read::GzDecoder;
use testkit::waiting::wait_until;

const READY: &str = "ready to serve client requests";

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_are_json_with_etcd_fields() {
    let member = Member::start(Options::new());
    let line = member.log().wait_for_message(READY);
    assert_eq!(line["level"], "info");
    assert!(line["caller"].as_str().unwrap().contains(':'), "{line}");
    let time = line["ts"].as_str().unwrap();
    assert_eq!(time.find('T'), Some(10), "{time}");
    for line in member.log().lines() {
        serde_json::from_str::<serde_json::Value>(&line).unwrap_or_else(|error| {
            panic!("{error}: {line}");
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_format_is_not_json() {
    let member = Member::start(Options::new().flag("log-format", "console"));
    let line = member.log().wait_for(|line| line.contains(READY)).unwrap();
    let columns: Vec<_> = line.split('\t').collect();
    assert_eq!((columns[1], columns[3]), ("info", READY), "{line}");
    assert_eq!(member.log().records().len(), 0, "no line is JSON");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_file_gets_the_same_lines_as_stderr() {
    let options = Options::new().flag("log-outputs", "stderr,{dir}/server.log");
    let stopped = Member::start(options).terminate();
    let file = fs::read_to_string(stopped.sandbox.path("server.log")).unwrap();
    assert!(file.contains(READY), "{file}");
    assert_eq!(file.lines().collect::<Vec<_>>(), stopped.end.stderr.lines());
}

/// A file that an earlier process left counts as rotated.
#[tokio::test(flavor = "multi_thread")]
async fn rotated_log_files_are_compressed_on_request() {
    let sandbox = Sandbox::new();
    let rotated = sandbox.path("server-2026-11-15T17-59-00.194.log");
    fs::write(&rotated, "an old line\n").unwrap();
    let options = Options::new()
        .flag("log-outputs", "stderr,{dir}/server.log")
        .flag("enable-log-rotation", "true")
        .flag("log-rotation-config-json", r#"{"maxsize": 1, "compress": true}"#);
    let _member = Member::start_in(sandbox, options);
    wait_until("the rotated file is replaced by its compressed form", || !rotated.exists());
    let compressed = fs::File::open(rotated.with_extension("log.gz")).unwrap();
    let mut text = String::new();
    GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
    assert_eq!(text, "an old line\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_level_debug_logs_more() {
    let member = Member::start(Options::new().flag("log-level", "debug"));
    let is_debug = |record: &serde_json::Value| record["level"] == "debug";
    member.client().put("k", "v").await.unwrap();
    assert!(member.log().records().iter().any(is_debug), "{}", member.log().tail());
}

/// Readiness is taken from systemd's notification, since the log is empty.
#[tokio::test(flavor = "multi_thread")]
async fn log_level_error_logs_nothing_without_errors() {
    let sandbox = Sandbox::new();
    let socket = UnixDatagram::bind(sandbox.path("notify")).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let options = Options::new().flag("log-level", "error");
    let process = sandbox.spawn(&options.env("NOTIFY_SOCKET", "{dir}/notify"));
    let mut received = [0; 64];
    let length = socket.recv(&mut received).unwrap();
    assert_eq!(&received[..length], b"READY=1");
    let health = http::wait_until_healthy(|| http::get(&sandbox.client_address(), "/health"));
    assert_eq!(health.status, 200);
    assert_eq!(process.stderr().lines(), [""; 0]);
}

/// etcd prints these lines with the variable of Go's HTTP/2 library.
#[tokio::test(flavor = "multi_thread")]
async fn http2debug_prints_the_header_fields_of_requests() {
    let member = Member::start(Options::new().env("GODEBUG", "http2debug=2"));
    member.client().put("k", "v").await.unwrap();
    let field = |name: &str, value: &str| {
        let line = format!("http2: decoded hpack field header field \"{name}\" = \"{value}\"");
        member.log().wait_for(|printed| printed == line).unwrap();
    };
    field(":path", "/etcdserverpb.KV/Put");
    field(":authority", &member.sandbox().client_address());
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_requests_are_logged_and_counted() {
    let options = Options::new().flag("warning-apply-duration", "1ns");
    let member = Member::start(options.flag("warning-unary-request-duration", "1ns"));
    let before = member.metric("etcd_server_slow_apply_total");
    member.client().put("k", "v").await.unwrap();
    let apply = member.log().wait_for_message("apply request took too long");
    assert_eq!(apply["level"], "warn");
    assert!(member.metric("etcd_server_slow_apply_total") > before);
    let unary = member.log().wait_for_message("request stats");
    assert_eq!(
        (&unary["level"], &unary["response type"]),
        (&"warn".into(), &"/etcdserverpb.KV/Put".into())
    );
}
