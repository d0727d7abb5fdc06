//! With the feature: points do what the environment and whoever asks over HTTP say. Each test is a process of its own, run again by this one,
//! as the environment is read once and a point may end the process.

#![cfg(feature = "failpoints")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};

use failpoint::failpoint;

/// Says to this program, run again, which part to play.
const PART: &str = "FAILPOINT_TEST_PART";

fn sync() -> Result<u32, String> {
    failpoint!("walBeforeSync");
    failpoint!("beforeWriteMetaError", |text| return Err(text));
    failpoint!("raftDropHeartbeat", || return Ok(0));
    Ok(1)
}

/// Runs this program again, with the environment that is given, to play the part of a test.
fn play(part: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "plays_its_part", "--nocapture"]).env(PART, part);
    command.envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    match part.as_str() {
        "start" => {
            failpoint::start().unwrap();
            println!("{:?} {:?}", sync(), sync());
        }
        "refused" => println!("{}", failpoint::start().unwrap_err()),
        "http" => over_http(),
        part => panic!("no such part: {part}"),
    }
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn nothing_is_said() {
    assert!(stdout(&play("start", &[])).contains("Ok(1) Ok(1)"));
}

#[test]
fn the_environment_says_what_to_do() {
    let terms = "beforeWriteMetaError=1*return(\"disk full\");walBeforeSync=print";
    let told = stdout(&play("start", &[("GOFAIL_FAILPOINTS", terms)]));
    assert!(told.contains("Err(\"disk full\") Ok(1)"), "{told}");
    assert_eq!(told.matches("failpoint print: walBeforeSync").count(), 2, "{told}");
}

#[test]
fn a_value_of_the_wrong_kind_is_told_and_left() {
    let told = stdout(&play("start", &[("GOFAIL_FAILPOINTS", "beforeWriteMetaError=return(5)")]));
    assert!(told.contains("Ok(1) Ok(1)"), "{told}");
    let text = "failpoint: \"beforeWriteMetaError\" got value 5 of type \"int\" but expected type \"string\"";
    assert!(told.contains(text), "{told}");
}

#[test]
fn a_point_without_a_value_is_told_to_return_with_none() {
    for terms in ["1*return", "1*return()"] {
        let terms = format!("raftDropHeartbeat={terms}");
        let told = stdout(&play("start", &[("GOFAIL_FAILPOINTS", &terms)]));
        assert!(told.contains("Ok(0) Ok(1)"), "{terms}: {told}");
    }
    let told =
        stdout(&play("start", &[("GOFAIL_FAILPOINTS", "raftDropHeartbeat=1*return(\"x\")")]));
    assert!(told.contains("Ok(1) Ok(1)"), "{told}");
    let text = "failpoint: \"raftDropHeartbeat\" got value x of type \"string\" but expected type \"struct{}\"";
    assert!(told.contains(text), "{told}");
}

#[test]
fn an_environment_that_makes_no_sense_is_refused() {
    let told = |terms| stdout(&play("refused", &[("GOFAIL_FAILPOINTS", terms)]));
    assert!(
        told("walBeforeSync").contains("fail to parse failpoint: bad failpoint \"walBeforeSync\"")
    );
    assert!(told("nowhere=panic").contains("failpoint: failpoint does not exist"));
    let told = stdout(&play("refused", &[("GOFAIL_HTTP", "nowhere")]));
    assert!(told.contains("listen for failpoints on nowhere: "), "{told}");
}

#[test]
fn a_panic_ends_the_process_at_once() {
    let output = play("start", &[("GOFAIL_FAILPOINTS", "walBeforeSync=1*off->panic")]);
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("panic: failpoint panic: {}"), "{told}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("Ok(1)"));
}

#[test]
fn whoever_asks_over_http_says_what_to_do() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let told = stdout(&play("http", &[("GOFAIL_HTTP", &port.to_string())]));
    assert!(told.contains("all was as it should be"), "{told}");
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
    let answer = ask("PUT", "/beforeWriteMetaError", "return(\"told\")");
    assert!(answer.starts_with("HTTP/1.1 204 No Content\r\n"), "{answer}");
    assert_eq!(sync(), Err("told".to_owned()));
    assert!(ask("GET", "/beforeWriteMetaError/count", "").ends_with("\r\n\r\n1"));
    assert!(ask("DELETE", "/beforeWriteMetaError", "").starts_with("HTTP/1.1 204"));
    assert_eq!(sync(), Ok(1));
    println!("all was as it should be");
}
