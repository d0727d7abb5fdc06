//! With the feature: points follow the environment and HTTP requests. Each test runs this program
//! again in a process of its own, because the environment is read once and a point may abort the
//! process.

#![cfg(feature = "failpoints")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::process::{Command, Output};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use failpoint::{failpoint, failpoint_async};
use testkit::ports::ReservedPort;

/// Tells the child process which role to run.
const ROLE: &str = "FAILPOINT_TEST_ROLE";
/// Bound on a wait. Far above the usual time, since test machines are busy.
const TIMEOUT: Duration = Duration::from_secs(120);

fn sync() -> Result<u32, String> {
    failpoint!("walBeforeSync");
    failpoint!("beforeWriteMetaError", |text| return Err(text));
    failpoint!("raftDropHeartbeat", || return Ok(0));
    Ok(1)
}

/// Runs this program again in a role, with the given environment.
fn run_child(role: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_process", "--nocapture"]).env(ROLE, role);
    command.envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "start" => {
            failpoint::start().unwrap();
            println!("{:?} {:?}", sync(), sync());
        }
        "refused" => println!("{}", failpoint::start().unwrap_err()),
        "http" => over_http(),
        "tasks" => two_tasks(),
        role => panic!("unknown role: {role}"),
    }
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn points_are_disabled_by_default() {
    assert!(stdout(&run_child("start", &[])).contains("Ok(1) Ok(1)"));
}

#[test]
fn the_environment_enables_points() {
    let terms = "beforeWriteMetaError=1*return(\"disk full\");walBeforeSync=print";
    let output = stdout(&run_child("start", &[("GOFAIL_FAILPOINTS", terms)]));
    assert!(output.contains("Err(\"disk full\") Ok(1)"), "{output}");
    assert_eq!(output.matches("failpoint print: walBeforeSync").count(), 2, "{output}");
}

#[test]
fn a_value_of_the_wrong_type_is_reported_and_ignored() {
    let output =
        stdout(&run_child("start", &[("GOFAIL_FAILPOINTS", "beforeWriteMetaError=return(5)")]));
    assert!(output.contains("Ok(1) Ok(1)"), "{output}");
    let text = "failpoint: \"beforeWriteMetaError\" got value 5 of type \"int\" but expected type \"string\"";
    assert!(output.contains(text), "{output}");
}

#[test]
fn a_point_without_a_value_returns_without_one() {
    for terms in ["1*return", "1*return()"] {
        let terms = format!("raftDropHeartbeat={terms}");
        let output = stdout(&run_child("start", &[("GOFAIL_FAILPOINTS", &terms)]));
        assert!(output.contains("Ok(0) Ok(1)"), "{terms}: {output}");
    }
    let output =
        stdout(&run_child("start", &[("GOFAIL_FAILPOINTS", "raftDropHeartbeat=1*return(\"x\")")]));
    assert!(output.contains("Ok(1) Ok(1)"), "{output}");
    let text = "failpoint: \"raftDropHeartbeat\" got value x of type \"string\" but expected type \"struct{}\"";
    assert!(output.contains(text), "{output}");
}

#[test]
fn an_invalid_environment_is_refused() {
    let output = |terms| stdout(&run_child("refused", &[("GOFAIL_FAILPOINTS", terms)]));
    assert!(
        output("walBeforeSync")
            .contains("fail to parse failpoint: bad failpoint \"walBeforeSync\"")
    );
    assert!(output("nowhere=panic").contains("failpoint: failpoint does not exist"));
    let output = stdout(&run_child("refused", &[("GOFAIL_HTTP", "nowhere")]));
    assert!(output.contains("listen for failpoints on nowhere: "), "{output}");
}

#[test]
fn a_panic_term_aborts_the_process() {
    let output = run_child("start", &[("GOFAIL_FAILPOINTS", "walBeforeSync=1*off->panic")]);
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("panic: failpoint panic: {}"), "{stderr}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("Ok(1)"));
}

#[test]
fn http_requests_enable_points() {
    let port = ReservedPort::new();
    let output = stdout(&run_child("http", &[("GOFAIL_HTTP", &port.address().to_string())]));
    assert!(output.contains("all requests were answered"), "{output}");
}

#[test]
fn a_sleeping_point_suspends_its_task_alone() {
    let terms = "beforePublishing=1*sleep(50)";
    let output = stdout(&run_child("tasks", &[("GOFAIL_FAILPOINTS", terms)]));
    assert!(output.contains("suspended, then done"), "{output}");
}

/// The first poll returns at once, so that its thread could run other tasks.
fn two_tasks() {
    async fn publish() -> u32 {
        failpoint_async!("beforePublishing");
        1
    }
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    failpoint::start().unwrap();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let (mut task, end) = (pin!(publish()), Instant::now() + TIMEOUT);
    assert!(task.as_mut().poll(&mut cx).is_pending());
    while task.as_mut().poll(&mut cx).is_pending() {
        assert!(Instant::now() < end, "the suspended task was not woken");
        std::thread::park_timeout(TIMEOUT);
    }
    failpoint::registry().disable("beforePublishing").unwrap();
    assert!(pin!(publish()).poll(&mut cx).is_ready(), "a disabled point needs no thread");
    println!("suspended, then done");
}

fn over_http() {
    failpoint::start().unwrap();
    let address = std::env::var("GOFAIL_HTTP").unwrap();
    let ask = |method: &str, target: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let length = body.len();
        write!(stream, "{method} {target} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("GET", "/", "").contains("\nwalBeforeSync=\n"));
    let answer = ask("PUT", "/beforeWriteMetaError", "return(\"injected\")");
    assert!(answer.starts_with("HTTP/1.1 204 No Content\r\n"), "{answer}");
    assert_eq!(sync(), Err("injected".to_owned()));
    assert!(ask("GET", "/beforeWriteMetaError/count", "").ends_with("\r\n\r\n1"));
    assert!(ask("DELETE", "/beforeWriteMetaError", "").starts_with("HTTP/1.1 204"));
    assert_eq!(sync(), Ok(1));
    println!("all requests were answered");
}
