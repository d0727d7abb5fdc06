//! Members and alarms through a database.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `changes` | what each entry of the log does, and when it is refused |
//! | `sequences` | any number of them: memory, database, another member and a model agree |
//! | `alarms` | raising and clearing |
//! | `captured` | what real clusters wrote is understood, and written again byte for byte |
//! | `hostile` | what nobody should have written is an error |

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
    Attributes, Change, Cluster, ClusterId, Member, Membership, RaftAttributes, Refused,
};
use types::MemberId;

/// A database on a disk that is not there.
fn database() -> Backend {
    let (disk, clock) = (env::SimDisk::new(0), env::SimClock::default());
    Backend::open(Arc::new(disk), Arc::new(clock), "db".as_ref(), Config::default()).unwrap()
}

/// Member 1's cluster, with nobody in it.
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

/// Checks a change and, unless it is refused, makes it: what applying an entry of the log does.
fn apply(cluster: &Cluster, tx: &mut Tx<'_>, change: &Change) -> Result<(), Refused> {
    let entry = change.to_conf_change(Some(1));
    let checked = cluster.check(&*tx, &entry).unwrap()?;
    assert_eq!(&checked, change);
    cluster.apply(tx, checked).unwrap();
    Ok(())
}

/// What a bucket holds, as text.
fn dump(backend: &Backend, bucket: Bucket) -> Vec<(String, String)> {
    let view = backend.view();
    let items = view.all(bucket).unwrap().map(|item| {
        let item = item.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&item.key), text(&item.value))
    });
    items.collect()
}

/// What whoever starts on this database would know.
fn restored(backend: &Backend) -> Membership {
    let cluster = cluster();
    cluster.restore(&backend.view()).unwrap();
    Membership::clone(&cluster.now())
}
