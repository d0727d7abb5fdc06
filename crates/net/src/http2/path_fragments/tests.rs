use super::*;

const PATH: u8 = 4;
const USER_AGENT: u8 = 58;
const ADDED: u8 = 0x40;
const NOT_ADDED: u8 = 0;
const NEVER_ADDED: u8 = 0x10;
/// `/a#b` and `/a>b` in Huffman coding.
const FRAGMENT_HUFFMAN: [u8; 4] = [0x60, 0x7f, 0xf5, 0x1f];
const PLAIN_HUFFMAN: [u8; 4] = [0x60, 0x7f, 0xf7, 0x1f];

/// A string whose length fits one byte.
fn text(text: &[u8], is_huffman: bool) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 0x7f);
    [&[length | u8::from(is_huffman) << 7], text].concat()
}

fn named(kind: u8, index: u8, value: &[u8]) -> Vec<u8> {
    [&[kind | index], &text(value, false)[..]].concat()
}

/// Returns whether a fragment is found, which must not depend on the portions.
fn found(blocks: &[Vec<u8>]) -> bool {
    let bytes = blocks.concat();
    let whole = PathFragments::default().feed(&bytes);
    for split in 0..bytes.len() {
        let mut paths = PathFragments::default();
        paths.feed(&bytes[..split]);
        assert_eq!(paths.feed(&bytes[split..]), whole, "split at {split}");
    }
    whole
}

#[test]
fn a_fragment_is_found_in_every_kind_of_literal() {
    for kind in [ADDED, NOT_ADDED, NEVER_ADDED] {
        for index in [PATH, PATH + 1] {
            assert!(found(&[vec![0x83, 0x86], named(kind, index, b"/a#b")]), "{kind}");
            assert!(!found(&[vec![0x83, 0x86], named(kind, index, b"/a?b")]), "{kind}");
        }
    }
}

#[test]
fn a_fragment_is_found_in_huffman_coding() {
    for (value, expected) in [(FRAGMENT_HUFFMAN, true), (PLAIN_HUFFMAN, false)] {
        assert_eq!(found(&[vec![ADDED | PATH], text(&value, true)]), expected);
        assert!(!found(&[vec![ADDED | PATH], text(&value, false)]), "it is not Huffman coding");
    }
}

#[test]
fn the_path_may_be_named_by_text() {
    for (name, is_huffman, expected) in [
        (&b":path"[..], false, true),
        (NameMatcher::HUFFMAN, true, true),
        (b":paths", false, false),
        (b":pat", false, false),
        (b"", false, false),
        (b":path", true, false),
    ] {
        let field = [vec![ADDED], text(name, is_huffman), text(b"/a#b", false)].concat();
        assert_eq!(found(&[field]), expected, "{name:?}");
    }
}

#[test]
fn the_path_may_be_named_by_a_field_of_the_dynamic_table() {
    let path = named(ADDED, PATH, b"/a");
    let other = |count: usize| vec![named(ADDED, USER_AGENT, b"x#y"); count].concat();
    // The newest field has index 62; indexes from 63 on take a second byte.
    let by_name = |age: u8, value: &[u8]| match age {
        0 => [&[ADDED | 62], &text(value, false)[..]].concat(),
        age => [&[ADDED | 63, age - 1], &text(value, false)[..]].concat(),
    };
    assert!(found(&[path.clone(), by_name(0, b"/a#b")]));
    assert!(!found(&[path.clone(), by_name(0, b"/a?b")]));
    for age in [1, 2, 100, 127] {
        assert!(found(&[path.clone(), other(age.into()), by_name(age, b"/a#b")]), "{age}");
        assert!(!found(&[path.clone(), other(age.into()), by_name(age - 1, b"/a#b")]), "{age}");
    }
    // The field that was added by name is a path, too.
    assert!(found(&[path.clone(), by_name(0, b"/b"), by_name(0, b"/a#b")]));
    // Fields that are not added have no age.
    let not_added = named(NOT_ADDED, USER_AGENT - 50, b"x");
    assert!(found(&[path, not_added, by_name(0, b"/a#b")]));
}

#[test]
fn other_fields_may_have_a_number_sign() {
    let name = [vec![NOT_ADDED], text(b"x#y", false), text(b"#", false)].concat();
    assert!(!found(&[named(ADDED, USER_AGENT, b"a#b"), name, named(ADDED, PATH, b"/a")]));
}

#[test]
fn long_strings_and_size_updates_are_skipped() {
    // 31 + 1000 as the new size; a value of 127 + 200 bytes.
    let size_update = vec![0x3f, 0xe8, 0x07];
    let long = [&[ADDED | USER_AGENT, 0x7f, 0xc8, 0x01][..], &[b'#'; 327]].concat();
    let path = |value: u8| [&[ADDED | PATH, 0x7f, 0xc8, 0x01][..], &[value; 327]].concat();
    assert!(!found(&[size_update.clone(), long.clone(), path(b'a')]));
    assert!(found(&[size_update, long, path(b'#')]));
}

#[test]
fn arbitrary_bytes_do_no_harm() {
    let mut state = 1u64;
    for _ in 0..2000 {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let bytes: Vec<u8> = (0..40).map(|_| next()).collect();
        found(&[bytes]);
    }
    let endless = [&[0xff][..], &[0xff; 40], &[0x7f]].concat();
    assert!(!found(&[endless]));
}
