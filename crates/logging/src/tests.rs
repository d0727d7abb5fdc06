//! The path of a line from a tracing macro to an output that the test controls.

use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;
use tracing::{debug, error, info, info_span, trace, warn};

use super::line::Line;
use super::*;

/// A timeout that no passing test reaches.
const LONG: Duration = Duration::from_secs(30);

/// A sink that passes its lines to the test, and writes only with a permit.
struct Gate {
    out: Sender<String>,
    permits: Option<Receiver<usize>>,
}

impl Sink for Gate {
    /// Each permit says how many lines the sink loses.
    fn write(&mut self, lines: &[Line]) -> usize {
        let lost = self.permits.as_ref().map_or(0, |permits| permits.recv().unwrap_or(0));
        for line in &lines[lost..] {
            self.out.send(line.text.clone()).unwrap();
        }
        lost
    }
}

struct Harness {
    dispatch: Dispatch,
    logs: LogGuard,
    lines: Receiver<String>,
}

impl Harness {
    fn new(level: Level, format: Format) -> Self {
        Self::with(level, format, None, Bounds::default(), Some(Sampler::new()))
    }

    fn with(
        level: Level,
        format: Format,
        permits: Option<Receiver<usize>>,
        bounds: Bounds,
        sampler: Option<Sampler>,
    ) -> Self {
        let (out, lines) = channel();
        let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Gate { out, permits })];
        let layout = Layout { format, zone: Zone::utc() };
        let (dispatch, logs) = assemble(level, layout, sampler, sinks, bounds).unwrap();
        Self { dispatch, logs, lines }
    }

    fn log(&self, what: impl FnOnce()) {
        tracing::dispatcher::with_default(&self.dispatch, what);
    }

    /// Returns all lines after a flush.
    fn written(&self) -> Vec<String> {
        assert!(self.logs.flush(LONG));
        self.lines.try_iter().collect()
    }

    fn messages(&self) -> Vec<String> {
        self.written().iter().map(|line| parsed(line)["msg"].as_str().unwrap().to_owned()).collect()
    }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Replaces the timestamp and the line number, which vary.
fn masked(line: &str) -> String {
    let is_stamp = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
    let is_line = |text: &str| text.parse::<u32>().is_ok();
    let line = replaced(line, is_stamp, "TS", &['"', '\t']);
    replaced(&line, is_line, "LINE", &['"', '\t', ':'])
}

fn replaced(line: &str, is_match: impl Fn(&str) -> bool, with: &str, at: &[char]) -> String {
    let hit = line.split(at).find(|word| is_match(word));
    line.replacen(hit.unwrap(), with, 1)
}

#[test]
fn a_json_line_has_zaps_format() {
    let harness = Harness::new(Level::Info, Format::Json);
    harness.log(|| info!(local_member_id = %"8e9e", leases = 3, "became \"leader\""));
    let expected = concat!(
        r#"{"level":"info","ts":"TS","caller":"logging/tests.rs:LINE","msg":"became \"leader\"","#,
        r#""local-member-id":"8e9e","leases":3}"#,
        "\n"
    );
    assert_eq!(masked(&harness.written()[0]), expected);
}

#[test]
fn a_console_line_has_zaps_format() {
    let harness = Harness::new(Level::Info, Format::Console);
    harness.log(|| {
        warn!(name = "default", pre_vote = true, "odd");
        info!(target: "raft", "no fields");
    });
    let lines: Vec<_> = harness.written().iter().map(|line| masked(line)).collect();
    let expected = [
        "TS\twarn\tlogging/tests.rs:LINE\todd\t{\"name\": \"default\", \"pre-vote\": true}\n",
        "TS\tinfo\traft\tlogging/tests.rs:LINE\tno fields\n",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_logger_name_stands_between_time_and_caller() {
    let harness = Harness::new(Level::Info, Format::Json);
    harness.log(|| info!(target: "raft::election", "campaigning"));
    let line = masked(&harness.written()[0]);
    assert!(line.contains(r#""ts":"TS","logger":"raft","caller":"logging/"#), "{line}");
}

#[test]
fn span_fields_come_first_outermost_first() {
    let harness = Harness::new(Level::Info, Format::Json);
    harness.log(|| {
        let outer = info_span!("request", request_id = 7, user = tracing::field::Empty);
        outer.record("user", "root");
        let _outer = outer.enter();
        let _inner = info_span!("watch", watch_id = 9).entered();
        info!(events = 2, "sent");
    });
    let line = harness.written().remove(0);
    assert!(
        line.ends_with(
            "\"msg\":\"sent\",\"request-id\":7,\"user\":\"root\",\"watch-id\":9,\"events\":2}\n"
        ),
        "{line}"
    );
}

#[test]
fn lines_below_the_level_are_not_written() {
    let all = || {
        trace!("trace");
        debug!("debug");
        info!("info");
        warn!("warn");
        error!("error");
        error!(target: "panic", "panic");
        error!(target: "fatal", "fatal");
    };
    let grave = ["debug", "info", "warn", "error", "panic", "fatal"];
    for (level, from) in
        [(Level::Debug, 0), (Level::Warn, 2), (Level::DPanic, 4), (Level::Fatal, 5)]
    {
        let harness = Harness::new(level, Format::Json);
        harness.log(all);
        let lines = harness.written();
        let levels: Vec<_> = lines.iter().map(|line| parsed(line)["level"].clone()).collect();
        assert_eq!(levels, grave[from..], "{level}");
    }
}

#[test]
fn dependencies_are_logged_from_warn_only() {
    let harness = Harness::new(Level::Debug, Format::Json);
    harness.log(|| {
        info!(target: "h2::codec", "frame");
        warn!(target: "h2::codec", "odd frame");
        debug!(target: "server::apply", "applied");
    });
    assert_eq!(harness.messages(), ["odd frame", "applied"]);
}

#[test]
fn repeated_messages_are_sampled() {
    let harness = Harness::new(Level::Info, Format::Json);
    harness.log(|| (0..1000).for_each(|nth| info!(nth, "again")));
    // 109 lines, and about 100 more for each second that ends in between.
    assert!((109..1000).contains(&harness.written().len()));
}

#[test]
fn lines_beyond_the_queue_are_dropped_and_reported() {
    let (permit, permits) = channel();
    let bounds = Bounds { lines: 3, bytes: 10_000 };
    let harness = Harness::with(Level::Info, Format::Json, Some(permits), bounds, None);
    harness.log(|| (0..10).for_each(|nth| info!(nth, "line")));
    assert_eq!(harness.logs.dropped(), 7);
    assert!(!harness.logs.flush(Duration::from_millis(1)), "the output is stuck");
    // One permit for each possible batch: every line and the report.
    (0..4).for_each(|_| permit.send(0).unwrap());
    let lines: Vec<_> =
        (0..4).map(|_| parsed(&harness.lines.recv_timeout(LONG).unwrap())).collect();
    let report = lines.iter().find(|line| line["msg"] == "dropped log lines").unwrap();
    assert_eq!((&report["count"], &report["level"]), (&Value::from(7), &Value::from("warn")));
    let kept: Vec<_> = lines.iter().filter_map(|line| line["nth"].as_u64()).collect();
    assert_eq!(kept, [0, 1, 2]);
    drop(permit);
    assert!(harness.logs.flush(LONG));
}

#[test]
fn lines_lost_by_an_output_are_reported_when_it_works_again() {
    let (permit, permits) = channel();
    let harness = Harness::with(Level::Info, Format::Json, Some(permits), Bounds::default(), None);
    harness.log(|| info!("lost"));
    permit.send(1).unwrap();
    assert!(harness.logs.flush(LONG));
    assert_eq!(harness.logs.dropped(), 1);
    harness.log(|| info!("kept"));
    drop(permit);
    assert_eq!(harness.messages(), ["kept", "dropped log lines"]);
    assert_eq!(harness.logs.dropped(), 1);
}

#[test]
fn dropping_the_guard_writes_the_queued_lines() {
    let harness = Harness::new(Level::Info, Format::Json);
    harness.log(|| (0..50).for_each(|nth| info!(nth, "last words")));
    let Harness { dispatch, logs, lines } = harness;
    drop(logs);
    assert_eq!(lines.try_iter().count(), 50);
    tracing::dispatcher::with_default(&dispatch, || info!("too late"));
    assert_eq!(lines.try_iter().count(), 0);
}
