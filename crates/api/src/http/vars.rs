//! `/debug/vars`: a few values for whoever looks into a member by hand.
//!
//! ```text
//!   {
//!   "cmdline": ["bowline","--name","m1"],
//!   "file_descriptor_limit": 20000,
//!   "memstats": {"Sys":34795520},
//!   "raft.status": {"id":"2bc21162cab8eb93","term":2, …}
//!   }
//! ```
//!
//! In etcd, `memstats` is what Go's garbage collector knows. There is none here, so of its numbers only the one that means the same is given: `Sys`, the
//! memory that the process has from the system.

use bytes::Bytes;
use http::{HeaderValue, Response};

use super::answer;
use super::member::Member;
use super::process::Process;

pub(super) async fn answer(member: &impl Member, command_line: &[String]) -> Response<Bytes> {
    let process = Process::now();
    let status = member.raft_status().await.unwrap_or_else(|| "null".to_owned());
    let text = format!(
        "{{\n\"cmdline\": {},\n\"file_descriptor_limit\": {},\n\"memstats\": {},\n\"raft.status\": {status}\n}}\n",
        serde_json::json!(command_line),
        process.max_fds.unwrap_or_default(),
        serde_json::json!({ "Sys": process.resident_bytes.unwrap_or_default() }),
    );
    answer::body(HeaderValue::from_static("application/json; charset=utf-8"), text)
}
