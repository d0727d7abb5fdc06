//! Clusters of several members.

use crate::member::Member;
use crate::options::Options;
use crate::sandbox::Sandbox;

/// Starts a new cluster of members `m1`, `m2`, … with these options, and waits until all serve.
///
/// # Panics
///
/// If a member does not start.
#[track_caller]
pub fn start_cluster(size: usize, change: impl Fn(Options) -> Options) -> Vec<Member> {
    let sandboxes: Vec<_> = (0..size).map(|_| Sandbox::new()).collect();
    let scheme = scheme(&change(Options::new()));
    let url = |(n, sandbox): (usize, &Sandbox)| {
        format!("{}={scheme}://{}", name(n), sandbox.peer_address())
    };
    let initial = sandboxes.iter().enumerate().map(url).collect::<Vec<_>>().join(",");
    let member = |(n, sandbox)| {
        let options = Options::new().flag("name", name(n)).flag("initial-cluster", &*initial);
        (sandbox, change(options))
    };
    Member::start_together(sandboxes.into_iter().enumerate().map(member).collect())
}

/// The scheme of the peer URLs in the options.
fn scheme(options: &Options) -> &'static str {
    let urls = options.value("listen-peer-urls").unwrap_or_default();
    if urls.starts_with("https") { "https" } else { "http" }
}

fn name(number: usize) -> String {
    format!("m{}", number + 1)
}
