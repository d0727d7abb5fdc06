//! With the feature `failpoints`: a commit and a defragmentation fail where they are told to, and what was committed stays.

#![cfg(feature = "failpoints")]

use std::sync::Arc;

use bolt::{Db, Options};
use env::{SimClock, SimDisk};

/// Points are those of the process, so all of it is one test.
#[test]
fn what_fails_where_it_is_told_to_loses_nothing() -> anyhow::Result<()> {
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
        points.enable(point, "1*return(\"told to\")")?;
        let error = db.defragment(&clock).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{words}: told to")), "{error}");
    }
    db.defragment(&clock)?;

    points.enable("beforeWriteMetaError", "1*return(\"told to\")")?;
    let error = put(&db, b"two").unwrap_err().to_string();
    assert!(error.ends_with("write meta: told to"), "{error}");
    assert!(put(&db, b"three").is_err(), "nothing is written after a failed commit");
    drop(db);

    let db = Db::open(disk, &clock, "db".as_ref(), Options::default())?;
    points.enable("beforeSyncMetaPage", "print")?;
    put(&db, b"four")?;
    assert_eq!(points.status("beforeSyncMetaPage")?.1, 1, "it was passed once");
    let now = db.snapshot();
    let bucket = now.bucket(b"key")?.expect("it was made");
    assert_eq!(bucket.get(b"foo")?, Some(&b"four"[..]));
    Ok(())
}
