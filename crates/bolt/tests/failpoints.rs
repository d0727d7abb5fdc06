//! With the feature `failpoints`: injected failures of commits and defragmentations lose no
//! committed data.

#![cfg(feature = "failpoints")]

use std::sync::Arc;

use bolt::{Db, Options};
use env::{SimClock, SimDisk};

/// Failpoints are global to the process, so this is a single test.
#[test]
fn injected_failures_lose_no_committed_data() -> anyhow::Result<()> {
    let (disk, clock) = (Arc::new(SimDisk::new(0)), SimClock::default());
    let db = Db::open(disk.clone(), &clock, "db".as_ref(), Options::default())?;
    let put = |db: &Db, value: &[u8]| -> anyhow::Result<()> {
        let mut tx = db.write()?;
        tx.create_bucket_if_missing(b"key")?.put(b"foo", value)?;
        tx.commit()?;
        Ok(())
    };
    put(&db, b"one")?;
    let points = failpoint::registry();

    for (point, words) in [("defragOpenFileError", "create"), ("defragdbFail", "copy")] {
        points.enable(point, "1*return(\"injected\")")?;
        let error = db.defragment(&clock).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{words}: injected")), "{error}");
    }
    db.defragment(&clock)?;

    points.enable("beforeWriteMetaError", "1*return(\"injected\")")?;
    let error = put(&db, b"two").unwrap_err().to_string();
    assert!(error.ends_with("write meta: injected"), "{error}");
    assert!(put(&db, b"three").is_err(), "writes are refused after a failed commit");
    drop(db);

    let db = Db::open(disk, &clock, "db".as_ref(), Options::default())?;
    points.enable("beforeSyncMetaPage", "print")?;
    put(&db, b"four")?;
    assert_eq!(points.status("beforeSyncMetaPage")?.1, 1, "the failpoint was hit once");
    let now = db.snapshot();
    let bucket = now.bucket(b"key")?.expect("created before");
    assert_eq!(bucket.get(b"foo")?, Some(&b"four"[..]));
    Ok(())
}
