//! Tests of the public interface, with a database.
//!
//! | file | subject |
//! | --- | --- |
//! | `changes` | effects and refusals of each kind of log entry |
//! | `sequences` | random sequences: memory, database, a second member and a model agree |
//! | `alarms` | raising and clearing |
//! | `captured` | log entries of real clusters |
//! | `hostile` | malformed input |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod alarms;
mod captured;
mod changes;
mod hostile;
mod sequences;

use std::sync::Arc;

use backend::schema::Bucket;
use backend::{Backend, Config, Read as _, Tx};
use membership::{
    Attributes, Change, Cluster, ClusterId, ConfChangeRefusal, Member, Membership, RaftAttributes,
};
use types::MemberId;

/// Opens a database on a simulated disk.
fn database() -> Backend {
    let (disk, clock) = (env::SimDisk::new(0), env::SimClock::default());
    Backend::open(Arc::new(disk), Arc::new(clock), "db".as_ref(), Config::default()).unwrap()
}

/// Creates an empty cluster of local member 1.
fn cluster() -> Cluster {
    Cluster::new(ClusterId(9), MemberId(1), 1, Membership::default())
}

fn member(id: u64, is_learner: bool) -> Member {
    Member {
        id: MemberId(id),
        raft: RaftAttributes { peer_urls: vec![format!("http://10.0.0.{id}:2380")], is_learner },
        attributes: Attributes::default(),
    }
}

/// Checks a conf change and applies it unless it is refused.
fn apply(cluster: &Cluster, tx: &mut Tx<'_>, change: &Change) -> Result<(), ConfChangeRefusal> {
    let entry = change.to_conf_change(Some(1));
    let checked = cluster.check(&*tx, &entry).unwrap()?;
    assert_eq!(&checked, change);
    cluster.apply(tx, checked).unwrap();
    Ok(())
}

/// Returns the items of a bucket as text.
fn dump(backend: &Backend, bucket: Bucket) -> Vec<(String, String)> {
    let view = backend.view();
    let items = view.all(bucket).unwrap().map(|item| {
        let item = item.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&item.key), text(&item.value))
    });
    items.collect()
}

/// Returns the membership that a restart would read.
fn restored(backend: &Backend) -> Membership {
    let cluster = cluster();
    cluster.restore(&backend.view()).unwrap();
    Membership::clone(&cluster.now())
}
