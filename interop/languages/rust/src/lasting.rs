//! Watches, leases, locks and elections.

use std::time::{Duration, Instant};

use etcd_client::{
    Client, Error, EventType, GetOptions, LeaseTimeToLiveOptions, LockOptions, ProclaimOptions,
    PutOptions, ResignOptions, WatchOptions, WatchStream,
};

use crate::program::{ask, step};
use crate::{Done, failed, shown};

/// Returns the next events of a watch, and the revision of the last.
async fn take(stream: &mut WatchStream, count: usize) -> Result<(String, i64), Error> {
    let mut all = Vec::new();
    let mut last = 0;
    while all.len() < count {
        let response = stream.message().await?.ok_or_else(|| Error::WatchError("ended".into()))?;
        if response.canceled() {
            let (reason, compacted) = (response.cancel_reason(), response.compact_revision());
            return Err(Error::WatchError(format!("{reason}, compacted at {compacted}")));
        }
        for event in response.events() {
            let kv = event.kv().expect("an event has a key");
            let kind = if event.event_type() == EventType::Put { "PUT" } else { "DELETE" };
            let before =
                event.prev_kv().map(|kv| format!(" was {}", shown(kv))).unwrap_or_default();
            last = kv.mod_revision();
            all.push(format!("{kind} {}@{last}{before}", shown(kv)));
        }
    }
    Ok((all.join(", "), last))
}

fn from(revision: i64) -> WatchOptions {
    WatchOptions::new().with_prefix().with_start_revision(revision)
}

pub async fn watches(client: &mut Client) -> Done {
    let mut stream = client.watch("r/", Some(from(2).with_prev_key())).await?;
    step("watch from the past", take(&mut stream, 8).await?.0);
    client.put("r/w", "before", None).await?;
    let (text, last) = take(&mut stream, 1).await?;
    step("watch", text);
    ask("restart");
    step("cut off", take(&mut stream, 1).await.is_err());
    found_again(client).await?;
    client.put("r/w", "after", None).await?;
    let mut stream = client.watch("r/", Some(from(last + 1))).await?;
    step("watch after a restart", take(&mut stream, 1).await?.0);
    Ok(())
}

/// Waits until the client has reconnected, which shows only in a request.
async fn found_again(client: &mut Client) -> Done {
    let begun = Instant::now();
    loop {
        match client.get("r/a", None).await {
            Err(error) if begun.elapsed() > Duration::from_secs(60) => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Ok(_) => return Ok(()),
        }
    }
}

pub async fn watch_the_compacted(client: &mut Client) -> Done {
    let mut stream = client.watch("r/", Some(from(2))).await?;
    failed("watch the compacted", take(&mut stream, 1).await);
    Ok(())
}

pub async fn leases(client: &mut Client) -> Done {
    let lease = client.lease_grant(6, None).await?;
    let put = client.put("r/l", "leased", Some(PutOptions::new().with_lease(lease.id()))).await?;
    let left = client
        .lease_time_to_live(lease.id(), Some(LeaseTimeToLiveOptions::new().with_keys()))
        .await?;
    let keys: Vec<_> = left.keys().iter().map(|key| String::from_utf8_lossy(key)).collect();
    step("lease", format!("{} s, granted {} s, keys {keys:?}", lease.ttl(), left.granted_ttl()));
    keep_alive(client, lease.id(), Duration::from_secs(8)).await?;
    step("kept alive", client.get("r/l", None).await?.count());
    let first = put.header().expect("a header").revision() + 1;
    let mut stream = client.watch("r/l", Some(from(first))).await?;
    step("expired", take(&mut stream, 1).await?.0);
    step("after that", format!("{} s", client.lease_time_to_live(lease.id(), None).await?.ttl()));
    let other = client.lease_grant(100, None).await?;
    client.put("r/l", "again", Some(PutOptions::new().with_lease(other.id()))).await?;
    step("leases", client.leases().await?.leases().len());
    client.lease_revoke(other.id()).await?;
    step("revoked", client.get("r/l", None).await?.count());
    Ok(())
}

async fn keep_alive(client: &mut Client, lease: i64, how_long: Duration) -> Done {
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
    let begun = Instant::now();
    while begun.elapsed() < how_long {
        keeper.keep_alive().await?;
        let answer = answers.message().await?.expect("an answer");
        assert_eq!(answer.ttl(), 6, "renewed");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

pub async fn locks(client: &mut Client) -> Done {
    let lease = client.lease_grant(20, None).await?.id();
    let other = client.lease_grant(20, None).await?.id();
    let lock = client.lock("lock", Some(LockOptions::new().with_lease(lease))).await?;
    step("lock", format!("a key below lock/: {}", lock.key().starts_with(b"lock/")));
    let mut rival = client.clone();
    let mut waiting = tokio::spawn(async move {
        rival.lock("lock", Some(LockOptions::new().with_lease(other))).await
    });
    // A waiting rival has its own key.
    while client.get("lock/", Some(GetOptions::new().with_prefix())).await?.count() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    step("rival waits", early.is_err());
    client.unlock(lock.key()).await?;
    let theirs = waiting.await.expect("the rival does not panic")?;
    step("rival, then", theirs.key() != lock.key());
    client.unlock(theirs.key()).await?;
    client.lease_revoke(lease).await?;
    client.lease_revoke(other).await?;
    Ok(())
}

pub async fn elections(client: &mut Client) -> Done {
    let lease = client.lease_grant(20, None).await?.id();
    let won = client.campaign("election", "me", lease).await?;
    let leader = won.leader().expect("a leader").clone();
    step("leader", value(client).await?);
    let mut observed = client.observe("election").await?;
    step("observed", shown_value(observed.message().await?));
    client.proclaim("still me", Some(ProclaimOptions::new().with_leader(leader.clone()))).await?;
    step("observed, later", shown_value(observed.message().await?));
    client.resign(Some(ResignOptions::new().with_leader(leader))).await?;
    failed("no leader", client.leader("election").await);
    client.lease_revoke(lease).await?;
    Ok(())
}

async fn value(client: &mut Client) -> Result<String, Error> {
    Ok(shown_value(Some(client.leader("election").await?)))
}

fn shown_value(response: Option<etcd_client::LeaderResponse>) -> String {
    let kv = response.as_ref().and_then(|response| response.kv()).expect("a leader");
    String::from_utf8_lossy(kv.value()).into_owned()
}
