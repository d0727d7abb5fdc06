//! Following the member list: `--endpoints-auto-sync-interval`.

use std::time::Duration;

use http::HeaderMap;
use proto::etcdserverpb::{Member, MemberListRequest};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{Endpoint, Upstream};

/// The time for one update. As in etcd's client.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// Replaces the endpoints by the client URLs of the members, at intervals, forever.
pub(crate) async fn keep_synced(upstream: Upstream, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate, and the endpoints are those of the flags.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let synced = timeout(SYNC_TIMEOUT, sync(&upstream)).await;
        let synced = synced.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        if let Err(error) = synced {
            tracing::info!(error, "Auto sync endpoints failed.");
        }
    }
}

async fn sync(upstream: &Upstream) -> Result<(), String> {
    let request = MemberListRequest { linearizable: true };
    let request =
        upstream.request(request, &HeaderMap::new()).map_err(|error| error.to_string())?;
    let list = upstream.cluster().member_list(request).await;
    let list = list.map_err(|status| status.message().to_owned())?.into_inner();
    let urls = client_urls(list.members);
    if urls.is_empty() {
        return Err("no member has a client URL".to_owned());
    }
    if upstream.set_endpoints(&urls).map_err(|error| error.to_string())? {
        let endpoints: Vec<String> = upstream
            .endpoints()
            .iter()
            .map(|endpoint| Endpoint::url(endpoint).to_owned())
            .collect();
        tracing::info!(?endpoints, "updated the endpoints from the member list");
    }
    Ok(())
}

/// Returns the client URLs of started voters.
fn client_urls(members: Vec<Member>) -> Vec<String> {
    let serving =
        members.into_iter().filter(|member| !member.name.is_empty() && !member.is_learner);
    serving.flat_map(|member| member.client_urls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learners_and_members_that_have_not_started_are_no_endpoints() {
        let member = |name: &str, is_learner| Member {
            name: name.to_owned(),
            client_urls: vec![format!("http://{name}:1")],
            is_learner,
            ..Member::default()
        };
        let members = vec![member("a", false), member("", false), member("b", true)];
        assert_eq!(client_urls(members), ["http://a:1"]);
    }
}
