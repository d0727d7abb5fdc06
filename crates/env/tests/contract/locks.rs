//! Locks between handles.

use std::sync::Arc;

use env::{File, Lock, Locking, Open};

use super::{TestDisk, on_each};

const BOTH: [Locking; 2] = [Locking::Flock, Locking::Ofd];

fn two_handles(ground: &TestDisk) -> (Arc<dyn File>, Arc<dyn File>) {
    let one = ground.open("file", Open::create(env::Create::IfMissing)).unwrap();
    (one, ground.open("file", Open::write()).unwrap())
}

#[test]
fn an_exclusive_lock_excludes_other_handles_until_dropped() {
    on_each(|ground| {
        for locking in BOTH {
            let (one, other) = two_handles(ground);
            let clone = Arc::clone(&one);
            assert!(one.try_lock(locking, Lock::Exclusive).unwrap());
            assert!(one.try_lock(locking, Lock::Exclusive).unwrap(), "locking again succeeds");
            assert!(!other.try_lock(locking, Lock::Exclusive).unwrap(), "{locking:?}");
            assert!(!other.try_lock(locking, Lock::Shared).unwrap(), "{locking:?}");
            drop(one);
            assert!(!other.try_lock(locking, Lock::Shared).unwrap(), "a clone is the same handle");
            drop(clone);
            assert!(other.try_lock(locking, Lock::Exclusive).unwrap(), "{locking:?}");
        }
    });
}

#[test]
fn shared_locks_are_compatible() {
    on_each(|ground| {
        for locking in BOTH {
            let (one, other) = two_handles(ground);
            assert!(one.try_lock(locking, Lock::Shared).unwrap());
            assert!(other.try_lock(locking, Lock::Shared).unwrap());
            assert!(
                !ground
                    .open("file", Open::write())
                    .unwrap()
                    .try_lock(locking, Lock::Exclusive)
                    .unwrap()
            );
            drop(one);
            assert!(
                other.try_lock(locking, Lock::Exclusive).unwrap(),
                "the only holder may upgrade"
            );
        }
    });
}

#[test]
fn flock_and_ofd_locks_are_independent() {
    on_each(|ground| {
        let (one, other) = two_handles(ground);
        assert!(one.try_lock(Locking::Flock, Lock::Exclusive).unwrap());
        assert!(other.try_lock(Locking::Ofd, Lock::Exclusive).unwrap());
    });
}

#[test]
fn a_lock_belongs_to_the_file_not_to_its_name() {
    on_each(|ground| {
        for locking in BOTH {
            let (one, other) = two_handles(ground);
            assert!(one.try_lock(locking, Lock::Exclusive).unwrap());
            ground.disk.rename(&ground.path("file"), &ground.path("moved")).unwrap();
            assert!(!other.try_lock(locking, Lock::Exclusive).unwrap());
            let (fresh, _) = two_handles(ground);
            assert!(fresh.try_lock(locking, Lock::Exclusive).unwrap(), "another file");
        }
    });
}

#[test]
fn a_failed_upgrade_loses_a_flock() {
    on_each(|ground| {
        let (one, other) = two_handles(ground);
        assert!(one.try_lock(Locking::Flock, Lock::Shared).unwrap());
        assert!(other.try_lock(Locking::Flock, Lock::Shared).unwrap());
        assert!(!one.try_lock(Locking::Flock, Lock::Exclusive).unwrap());
        assert!(
            other.try_lock(Locking::Flock, Lock::Exclusive).unwrap(),
            "no other handle holds a lock"
        );
    });
}

#[test]
fn a_failed_upgrade_keeps_an_ofd_lock() {
    on_each(|ground| {
        let (one, other) = two_handles(ground);
        assert!(one.try_lock(Locking::Ofd, Lock::Shared).unwrap());
        assert!(other.try_lock(Locking::Ofd, Lock::Shared).unwrap());
        assert!(!one.try_lock(Locking::Ofd, Lock::Exclusive).unwrap());
        assert!(!other.try_lock(Locking::Ofd, Lock::Exclusive).unwrap());
    });
}

#[test]
fn an_exclusive_ofd_lock_requires_write_access() {
    on_each(|ground| {
        ground.file("file", b"");
        let file = ground.open("file", Open::read()).unwrap();
        let error = file.try_lock(Locking::Ofd, Lock::Exclusive).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        assert!(file.try_lock(Locking::Ofd, Lock::Shared).unwrap());
        assert!(file.try_lock(Locking::Flock, Lock::Exclusive).unwrap());
    });
}
