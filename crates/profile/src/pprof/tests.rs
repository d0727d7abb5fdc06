use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;
use crate::mapped_files::mapped_files;
use crate::stack_counts::Stack;

pub(crate) fn decode(profile: &[u8]) -> Profile {
    let mut bytes = Vec::new();
    GzDecoder::new(profile).read_to_end(&mut bytes).unwrap();
    Profile::decode(&*bytes).unwrap()
}

/// Returns a text of the string table.
pub(crate) fn text(profile: &Profile, index: i64) -> &str {
    &profile.string_table[usize::try_from(index).unwrap()]
}

/// Returns the entry with an id, which is its position, counted from one.
fn entry<T>(entries: &[T], id: u64) -> &T {
    &entries[usize::try_from(id).unwrap() - 1]
}

/// Returns the names of a sample's functions, innermost first.
pub(crate) fn names<'a>(profile: &'a Profile, sample: &Sample) -> Vec<&'a str> {
    let locations = sample.location_id.iter().map(|id| entry(&profile.location, *id));
    let lines = locations.flat_map(|location| &location.line);
    lines
        .map(|line| entry(&profile.function, line.function_id))
        .map(|function| text(profile, function.name))
        .collect()
}

fn description() -> Description<1> {
    Description {
        kinds: [("things", "count")],
        default_kind: "things",
        period: (("things", "count"), 7),
        at: SystemTime::UNIX_EPOCH + Duration::from_secs(5),
        duration: Duration::from_millis(30),
        comments: vec!["a comment".to_owned()],
    }
}

#[inline(never)]
fn known_function() -> u64 {
    std::hint::black_box(11)
}

#[test]
fn an_address_becomes_a_function_in_a_mapped_file() {
    known_function();
    let (address, files) = (known_function as *const () as u64, mapped_files());
    let mut stacks = StackCounts::default();
    let thread = "raft".to_owned();
    stacks.add(Stack { addresses: vec![address, 1, address], thread }, [3]);
    let profile = decode(&encode(
        &description(),
        &stacks,
        &Symbols::resolve(&stacks.addresses(), &files),
        &files,
    ));
    let text = |index: i64| text(&profile, index);
    assert_eq!(text(0), "");
    assert_eq!((profile.time_nanos, profile.duration_nanos), (5_000_000_000, 30_000_000));
    assert_eq!((profile.period, text(profile.comment[0])), (7, "a comment"));
    assert_eq!(text(profile.default_sample_type), "things");
    let [sample] = &profile.sample[..] else { panic!("{:?}", profile.sample) };
    assert_eq!(sample.value, [3]);
    assert_eq!((text(sample.label[0].key), text(sample.label[0].str)), ("thread", "raft"));
    // The unknown address has no name, and the known one is stored once.
    let name = "profile::pprof::tests::known_function";
    assert_eq!(names(&profile, sample), [name, name]);
    assert_eq!(profile.location.len(), 2);
    let location = entry(&profile.location, sample.location_id[0]);
    let mapping = entry(&profile.mapping, location.mapping_id);
    assert!((mapping.memory_start..mapping.memory_limit).contains(&address));
    assert!(mapping.has_functions && mapping.has_filenames && mapping.has_line_numbers);
    assert!(location.line[0].line > 0);
    let unknown = entry(&profile.location, sample.location_id[1]);
    assert_eq!((unknown.mapping_id, unknown.address, unknown.line.len()), (0, 1, 0));
}

#[test]
fn names_without_addresses_are_encoded() {
    let stacks = [
        (vec!["[sleeping]".to_owned(), "[thread raft]".to_owned()], 1),
        (vec!["[sleeping]".to_owned(), "[thread net]".to_owned()], 2),
    ];
    let profile = decode(&encode_named(&description(), &stacks));
    assert_eq!(profile.location.len(), 3);
    assert_eq!(names(&profile, &profile.sample[1]), ["[sleeping]", "[thread net]"]);
    assert_eq!(profile.sample[1].value, [2]);
}
