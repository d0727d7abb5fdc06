//! Members that know each other.

use crate::member::Member;
use crate::options::Options;
use crate::place::Place;

/// Starts a new cluster, of members `m1`, `m2`, …, each with these options, and waits until all serve.
///
/// # Panics
///
/// If one does not.
#[track_caller]
pub fn start_cluster(size: usize, change: impl Fn(Options) -> Options) -> Vec<Member> {
    let places: Vec<_> = (0..size).map(|_| Place::new()).collect();
    let scheme = scheme(&change(Options::new()));
    let url =
        |(n, place): (usize, &Place)| format!("{}={scheme}://{}", name(n), place.peer_address());
    let initial = places.iter().enumerate().map(url).collect::<Vec<_>>().join(",");
    let member = |(n, place)| {
        let options = Options::new().flag("name", name(n)).flag("initial-cluster", &*initial);
        (place, change(options))
    };
    Member::start_together(places.into_iter().enumerate().map(member).collect())
}

/// How members are reached, as the options say.
fn scheme(options: &Options) -> &'static str {
    let urls = options.value("listen-peer-urls").unwrap_or_default();
    if urls.starts_with("https") { "https" } else { "http" }
}

fn name(number: usize) -> String {
    format!("m{}", number + 1)
}
