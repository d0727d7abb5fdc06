//! Contents of files.

use std::io::ErrorKind;

use env::{Create, Open};

use super::{kind_of, on_each};

#[test]
fn bytes_are_read_at_the_offset_they_were_written_to() {
    on_each(|ground| {
        let file = ground.file("file", b"0123456789");
        let mut buf = [0; 4];
        assert_eq!(file.read_at(&mut buf, 3).unwrap(), 4);
        assert_eq!(&buf, b"3456");
        assert_eq!(file.read_at(&mut buf, 8).unwrap(), 2, "reads stop at the end");
        assert_eq!(&buf[..2], b"89");
        assert_eq!(file.read_at(&mut buf, 10).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
        assert_eq!(kind_of(file.read_exact_at(&mut buf, 8)), Some(ErrorKind::UnexpectedEof));
        file.read_exact_at(&mut buf, 6).unwrap();
        assert_eq!(&buf, b"6789");
    });
}

#[test]
fn a_write_past_the_end_leaves_zeros_between() {
    on_each(|ground| {
        let file = ground.file("file", b"ab");
        file.write_at(b"yz", 5).unwrap();
        assert_eq!(ground.read("file"), b"ab\0\0\0yz");
        file.write_at(b"", 100).unwrap();
        assert_eq!(file.len().unwrap(), 7, "an empty write does not extend the file");
    });
}

#[test]
fn a_file_is_truncated_and_extended() {
    on_each(|ground| {
        let file = ground.file("file", b"0123456789");
        file.set_len(3).unwrap();
        file.set_len(5).unwrap();
        assert_eq!(ground.read("file"), b"012\0\0", "truncated data does not come back");
        assert!(!file.is_empty().unwrap());
        file.set_len(0).unwrap();
        assert!(file.is_empty().unwrap());
    });
}

#[test]
fn allocation_extends_and_never_shortens() {
    on_each(|ground| {
        let file = ground.file("file", b"abc");
        file.allocate(5000).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
        file.allocate(10).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
        let contents = ground.read("file");
        assert_eq!(&contents[..3], b"abc");
        assert!(contents[3..].iter().all(|byte| *byte == 0));
        assert_eq!(kind_of(file.allocate(0)), Some(ErrorKind::InvalidInput));
    });
}

#[test]
fn a_read_only_file_cannot_be_written() {
    on_each(|ground| {
        ground.file("file", b"abc");
        let file = ground.open("file", Open::read()).unwrap();
        assert_eq!(file.write_at(b"x", 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(kind_of(file.set_len(0)), Some(ErrorKind::InvalidInput));
        assert_eq!(file.allocate(9).unwrap_err().raw_os_error(), Some(libc::EBADF));
        file.sync_data().unwrap();
        assert_eq!(ground.read("file"), b"abc");
    });
}

#[test]
fn a_handle_outlives_the_file_name() {
    on_each(|ground| {
        let file = ground.file("file", b"first");
        assert!(file.is_at(&ground.path("file")).unwrap());
        ground.disk.rename(&ground.path("file"), &ground.path("moved")).unwrap();
        assert!(file.is_at(&ground.path("moved")).unwrap());
        assert!(!file.is_at(&ground.path("file")).unwrap(), "no file has this name");

        let second = ground.open("file", Open::create(Create::New)).unwrap();
        second.write_at(b"second", 0).unwrap();
        assert!(!file.is_at(&ground.path("file")).unwrap(), "another file has this name");
        ground.disk.rename(&ground.path("file"), &ground.path("moved")).unwrap();
        file.write_at(b"FI", 0).unwrap();
        let mut buf = [0; 5];
        file.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"FIrst", "replaced, but readable through the handle");
        assert_eq!(ground.read("moved"), b"second");

        ground.disk.remove_file(&ground.path("moved")).unwrap();
        assert_eq!(second.len().unwrap(), 6);
        second.sync_data().unwrap();
    });
}
