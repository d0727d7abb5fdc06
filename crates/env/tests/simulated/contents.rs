//! File contents after a power cut.

use env::{Disk, Open, SimDisk};

use super::*;

#[test]
fn synced_data_survives() {
    let disk = SimDisk::new(1);
    durable(&disk, "/file", b"durable");
    assert_eq!(cuts_of(&disk, "/file"), [Some(b"durable".to_vec())].into());
}

#[test]
fn each_sector_of_an_unsynced_write_survives_or_not() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("abc"));
    file.write_at(&sectors("XYZ"), 0).unwrap();
    let expected = set(["abc", "abZ", "aYc", "aYZ", "Xbc", "XbZ", "XYc", "XYZ"]);
    assert_eq!(letters_after_cuts(&disk, "/file"), expected);
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["XYZ"]));
}

#[test]
fn a_sector_shows_any_version_since_the_last_sync() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("a"));
    for letter in ["b", "c", "d"] {
        file.write_at(&sectors(letter), 0).unwrap();
    }
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a", "b", "c", "d"]));
}

#[test]
fn a_write_within_a_sector_keeps_its_neighbors() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", b"0123456789");
    file.write_at(b"xx", 4).unwrap();
    let expected = [&b"0123456789"[..], b"0123xx6789"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(cuts_of(&disk, "/file"), expected.into());
}

#[test]
fn writes_to_two_files_survive_in_any_order() {
    let disk = SimDisk::new(1);
    let (one, two) = (durable(&disk, "/one", b"-"), durable(&disk, "/two", b"-"));
    one.write_at(b"1", 0).unwrap();
    two.write_at(b"2", 0).unwrap();
    let seen = cuts(&disk, |disk| {
        [disk.contents("/one"), disk.contents("/two")].map(|found| found.unwrap()[0])
    });
    assert_eq!(seen, [*b"--", *b"1-", *b"-2", *b"12"].into());
}

#[test]
fn an_extending_write_may_have_reached_any_sector() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("a"));
    file.write_at(&sectors("XY"), SECTOR as u64).unwrap();
    let seen = letters_after_cuts(&disk, "/file");
    assert_eq!(seen, set(["a", "a.", "aX", "a..", "aX.", "a.Y", "aXY"]));
}

#[test]
fn a_changed_length_survives_or_not() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("a"));
    file.set_len(3 * SECTOR as u64).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a", "a.."]));
    file.sync_data().unwrap();
    file.allocate(4 * SECTOR as u64).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a..", "a..."]));
}

#[test]
fn truncated_data_may_come_back() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("ab"));
    file.set_len(SECTOR as u64).unwrap();
    // With the old length, the sector may be there or already be zero.
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a", "ab", "a."]));
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a"]));
    file.set_len(2 * SECTOR as u64).unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a", "a."]), "the truncation is durable");
}

#[test]
fn a_truncated_file_may_have_its_old_contents() {
    let disk = SimDisk::new(1);
    durable(&disk, "/file", b"before");
    disk.open(path("/file"), Open::create(Create::Truncate)).unwrap();
    let seen = cuts_of(&disk, "/file");
    assert!(seen.contains(&Some(b"before".to_vec())) && seen.contains(&Some(Vec::new())));
}

#[test]
fn gaps_read_as_zeros() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("a"));
    file.write_at(&sectors("X"), 3 * SECTOR as u64).unwrap();
    file.sync_data().unwrap();
    assert_eq!(letters_after_cuts(&disk, "/file"), set(["a..X"]));
}

#[test]
fn extreme_outcomes_are_not_rare() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("aaaaaaaaaaaaaaaa"));
    for at in 0..16 {
        file.write_at(&sectors("X"), at * SECTOR as u64).unwrap();
    }
    for extreme in ["aaaaaaaaaaaaaaaa", "XXXXXXXXXXXXXXXX", "XXXXXXXXXXXXXXXa"] {
        let hits = (0..SEEDS)
            .filter(|seed| letters(disk.power_cut(*seed).contents("/file")) == extreme)
            .count();
        assert!(hits > 20, "{extreme}: {hits} of {SEEDS}");
    }
    let middle = (0..SEEDS)
        .map(|seed| letters(disk.power_cut(seed).contents("/file")))
        .filter(|found| found.matches('a').count() == 1 && !found.ends_with('a'))
        .count();
    assert!(middle > 5, "only one sector in the middle is lost: {middle} of {SEEDS}");
}

#[test]
fn a_power_cut_is_reproducible_and_does_not_change_the_disk() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("aaaaaaaa"));
    file.write_at(&sectors("XXXXXXXX"), 0).unwrap();
    for seed in 0..SEEDS {
        let (one, two) = (disk.power_cut(seed), disk.power_cut(seed));
        assert_eq!(one.contents("/file"), two.contents("/file"));
        open(&one, "/file").write_at(b"scribble", 0).unwrap();
    }
    assert_eq!(letters(disk.contents("/file")), "XXXXXXXX");
}

#[test]
fn the_state_after_a_power_cut_is_durable() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("aaaa"));
    file.write_at(&sectors("XXXXXX"), 0).unwrap();
    for seed in 0..20 {
        let found = disk.power_cut(seed);
        assert_eq!(cuts_of(&found, "/file"), [found.contents("/file")].into());
    }
}

#[test]
fn a_power_cut_shares_unchanged_contents() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/file", &sectors("abc"));
    let map = |file: &dyn File| {
        // SAFETY: a map of the simulated disk never changes.
        #[expect(unsafe_code, reason = "maps reveal shared memory")]
        unsafe {
            file.map(SECTOR as u64, None).unwrap()
        }
    };
    let found = open(&disk.power_cut(1), "/file");
    assert!(map(&*file).same_memory(&map(&*found)));
}
