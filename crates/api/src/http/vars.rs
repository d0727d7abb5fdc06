//! `/debug/vars`: a few values for debugging by hand.
//!
//! ```text
//!   {
//!   "cmdline": ["bowline","--name","m1"],
//!   "file_descriptor_limit": 20000,
//!   "memstats": {"Alloc":9437184,"HeapAlloc":9437184, … "Sys":34795520},
//!   "raft.status": {"id":"2bc21162cab8eb93","term":2, …}
//!   }
//! ```
//!
//! In etcd, `memstats` are all statistics of Go's allocator and garbage collector. Here are those
//! with a counterpart: the memory of the process and of its allocator.

use bytes::Bytes;
use http::{HeaderValue, Response};

use super::member::Member;
use super::process::Process;
use super::response;

pub(super) async fn respond(member: &impl Member, command_line: &[String]) -> Response<Bytes> {
    let process = Process::now();
    let status = member.raft_status().await.unwrap_or_else(|| "null".to_owned());
    let text = format!(
        "{{\n\"cmdline\": {},\n\"file_descriptor_limit\": {},\n\"memstats\": {},\n\"raft.status\": {status}\n}}\n",
        serde_json::json!(command_line),
        process.max_fds.unwrap_or_default(),
        serde_json::Value::Object(process.memory_stats()),
    );
    response::page(HeaderValue::from_static("application/json; charset=utf-8"), text)
}
