//! Fields from tracing's macros, collected by a test dispatcher.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::{Event, Subscriber, info};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

use super::*;

/// Keeps the fields and the message of the last event.
struct Collect {
    format: Format,
    seen: Arc<Mutex<(String, String)>>,
}

impl<S: Subscriber> Layer<S> for Collect {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (mut fields, mut message) = (Fields::new(self.format), Message::default());
        event.record(&mut fields);
        event.record(&mut message);
        *self.seen.lock().unwrap() = (fields.text, message.text);
    }
}

fn collected(format: Format, log: impl FnOnce()) -> (String, String) {
    let seen = Arc::default();
    let layer = Collect { format, seen: Arc::clone(&seen) };
    tracing::subscriber::with_default(Registry::default().with(layer), log);
    seen.lock().unwrap().clone()
}

fn json(log: impl FnOnce()) -> String {
    collected(Format::Json, log).0
}

#[derive(Debug, thiserror::Error)]
#[error("save snapshot")]
struct Outer(#[source] Middle);

#[derive(Debug, thiserror::Error)]
#[error("write db: {0}")]
struct Middle(#[source] std::io::Error);

#[test]
fn values_keep_their_types_and_order() {
    let text = json(|| {
        info!(
            local_member_id = %"8e9e05c52164694d",
            "etcd-version" = "3.7.0",
            leases = 3_u64,
            delta = -4_i64,
            ratio = 0.25,
            whole = 2.0,
            pre_vote = true,
            took = ?Duration::from_micros(1282),
            missing = None::<u64>,
            r#type = "x",
            "message"
        );
    });
    let expected = concat!(
        r#""local-member-id":"8e9e05c52164694d","etcd-version":"3.7.0","leases":3,"delta":-4,"#,
        r#""ratio":0.25,"whole":2,"pre-vote":true,"took":"1.282ms","type":"x""#
    );
    assert_eq!(text, expected);
}

#[test]
fn numbers_that_json_lacks_are_strings() {
    let text = json(|| info!(a = f64::NAN, b = f64::INFINITY, c = f64::NEG_INFINITY));
    assert_eq!(text, r#""a":"NaN","b":"+Inf","c":"-Inf""#);
}

#[test]
fn lists_and_maps_become_json() {
    let urls = vec!["http://a:1".to_owned(), "http://b:2".to_owned()];
    let map = BTreeMap::from([("a", 1), ("b", 2)]);
    let none: [&str; 0] = [];
    let log = || info!(?urls, ?map, ?none, "x");
    let expected = r#""urls":["http://a:1","http://b:2"],"map":{"a":1,"b":2},"none":[]"#;
    assert_eq!(json(log), expected);
    let expected = r#""urls": ["http://a:1", "http://b:2"], "map": {"a": 1, "b": 2}, "none": []"#;
    assert_eq!(collected(Format::Console, log).0, expected);
}

#[test]
fn names_have_dashes_unless_etcd_has_underscores() {
    let text = json(|| info!(trace_id = 7, step_count = 1, applied_index = 2));
    assert_eq!(text, r#""trace_id":7,"step_count":1,"applied-index":2"#);
}

#[test]
fn a_text_that_looks_like_a_list_is_quoted() {
    let text = json(|| info!(key = %r#"["a",1]"#, host = %"[::1]:2379", debug = ?Some(1)));
    assert_eq!(text, r#""key":"[\"a\",1]","host":"[::1]:2379","debug":"Some(1)""#);
}

#[test]
fn a_list_that_is_not_json_is_quoted() {
    let text = json(|| info!(list = ?[Some(1), None]));
    assert_eq!(text, r#""list":"[Some(1), None]""#);
}

#[test]
fn an_error_names_each_cause_once() {
    let error = Outer(Middle(std::io::Error::other("disk on fire")));
    let text = json(|| info!(error = &error as &(dyn Error + 'static), "x"));
    assert_eq!(text, r#""error":"save snapshot: write db: disk on fire""#);
}

#[test]
fn the_message_is_not_a_field() {
    let (fields, message) = collected(Format::Json, || info!(term = 2, "became {}", "leader"));
    assert_eq!((fields.as_str(), message.as_str()), (r#""term":2"#, "became leader"));
    let (fields, message) = collected(Format::Json, || info!(message = "plain"));
    assert_eq!((fields.as_str(), message.as_str()), ("", "plain"));
}

#[test]
fn huge_values_are_cut_and_the_line_stays_json() {
    let huge = "\"".repeat(TEXT_BYTES_MAX);
    let list = vec![huge.clone(); 3];
    let (fields, message) = collected(Format::Json, || info!(huge, ?list, after = 1, "{huge}"));
    let object: Value = serde_json::from_str(&format!("{{{fields}}}")).unwrap();
    assert!(object["huge"].as_str().unwrap().ends_with("\"..."));
    assert!(object["list"].is_string());
    assert_eq!(object["after"], 1);
    assert!(fields.len() < TEXT_BYTES_MAX + 100);
    assert_eq!(message.len(), TEXT_BYTES_MAX);
}
