//! Memory-mapped files.

use std::io::ErrorKind;

use env::{File, Map};

use super::{kind_of, on_each};

fn map(file: &dyn File, len: u64, previous: Option<&Map>) -> std::io::Result<Map> {
    // SAFETY: these tests hold no slice of a map across a write.
    #[expect(unsafe_code, reason = "the test is about maps")]
    unsafe {
        file.map(len, previous)
    }
}

#[test]
fn a_map_shows_earlier_writes() {
    on_each(|ground| {
        let file = ground.file("file", b"0123456789");
        let seen = map(&*file, 8, None).unwrap();
        assert_eq!(seen.len(), 8);
        assert_eq!(seen.get(2, 6), Some(&b"234567"[..]));
        assert_eq!(seen.get(8, 0), Some(&b""[..]));
        assert_eq!(seen.get(2, 7), None, "beyond the end of the map");
        assert_eq!(seen.get(9, 0), None);
        assert_eq!(seen.get(usize::MAX, 2), None);
        assert!(map(&*file, 0, None).unwrap().is_empty());
    });
}

#[test]
fn mapping_beyond_the_end_of_the_file_fails() {
    on_each(|ground| {
        let file = ground.file("file", b"0123456789");
        let seen = map(&*file, 10, None).unwrap();
        assert_eq!(kind_of(map(&*file, 11, None)), Some(ErrorKind::UnexpectedEof));
        assert_eq!(kind_of(map(&*file, 11, Some(&seen))), Some(ErrorKind::UnexpectedEof));
        assert_eq!(kind_of(map(&*file, u64::MAX, None)), Some(ErrorKind::UnexpectedEof));
    });
}

#[test]
fn a_new_map_shows_growth_and_changes() {
    on_each(|ground| {
        let file = ground.file("file", b"01");
        let before = map(&*file, 2, None).unwrap();
        file.write_at(b"Z", 1).unwrap();
        file.write_at(&[7; 100_000], 2).unwrap();
        let after = map(&*file, 100_002, Some(&before)).unwrap();
        assert_eq!(after.get(0, 4), Some(&[b'0', b'Z', 7, 7][..]));
        assert_eq!(after.get(100_001, 1), Some(&[7][..]));
        assert_eq!(before.len(), 2, "a map keeps its length");
        assert_eq!(before.get(0, 1), Some(&b"0"[..]));
    });
}

#[test]
fn a_map_outlives_the_handle_and_the_name() {
    on_each(|ground| {
        let file = ground.file("file", b"still here");
        let seen = map(&*file, 10, None).unwrap();
        ground.file("other", b"replaced");
        ground.disk.rename(&ground.path("file"), &ground.path("moved")).unwrap();
        ground.disk.rename(&ground.path("other"), &ground.path("moved")).unwrap();
        drop(file);
        ground.disk.remove_file(&ground.path("moved")).unwrap();
        let clone = seen.clone();
        drop(seen);
        assert_eq!(clone.get(0, 10), Some(&b"still here"[..]));
    });
}
