//! The profile format of pprof: gzip over a protobuf message.
//!
//! ```text
//!   Profile  sample_type  [samples/count, cpu/nanoseconds]
//!            sample       location_id [7, 3, 1]  value [12, 120000000]  label {thread: raft}
//!            location 7   mapping 1  address 0x55d0c3a12340  line [{function 4, 210}, …]
//!            function 4   name "raft::raw_node::RawNode::step"  filename "crates/raft/…"
//!            mapping 1    0x55d0c3a00000..0x55d0c4100000  "/usr/bin/bowline"  build id
//!            string_table ["", "samples", "count", …]      texts are indexes into this table
//! ```

use std::collections::HashMap;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::elf::build_id;
use crate::mapped_files::MappedFile;
use crate::stack_counts::StackCounts;
use crate::symbols::{Call, Symbols};

/// The meaning of a counter: its type and unit.
pub(crate) type ValueKind = (&'static str, &'static str);

/// Facts about a profile beside its stacks.
#[derive(Debug)]
pub(crate) struct Description<const N: usize> {
    /// The meanings of the counters.
    pub(crate) kinds: [ValueKind; N],
    /// The counter that tools show first; empty to leave the choice to them.
    pub(crate) default_kind: &'static str,
    /// The sampled quantity, and the mean distance between samples.
    pub(crate) period: (ValueKind, i64),
    /// The time and duration of the profile; zero if it is a snapshot.
    pub(crate) at: SystemTime,
    pub(crate) duration: Duration,
    /// Remarks for readers.
    pub(crate) comments: Vec<String>,
}

/// Encodes stacks. `files` are the files that the addresses may be in.
pub(crate) fn encode<const N: usize>(
    description: &Description<N>,
    stacks: &StackCounts<N>,
    symbols: &Symbols,
    files: &[MappedFile],
) -> Vec<u8> {
    let mut writer = Writer::new(description);
    writer.add_mappings(files);
    for (stack, counts) in stacks.sorted() {
        let ids = stack.addresses.iter().map(|address| writer.location(*address, symbols, files));
        let ids = ids.collect();
        writer.add_sample(ids, counts, &stack.thread);
    }
    writer.finish()
}

/// Encodes stacks of names, which have no addresses: innermost name first.
pub(crate) fn encode_named(description: &Description<1>, stacks: &[(Vec<String>, i64)]) -> Vec<u8> {
    let mut writer = Writer::new(description);
    for (names, count) in stacks {
        let ids = names.iter().map(|name| writer.named_location(name)).collect();
        writer.add_sample(ids, &[*count], "");
    }
    writer.finish()
}

/// Builds the message. Equal texts, functions and locations are stored once.
struct Writer {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<u64, u64>,
    named_locations: HashMap<String, u64>,
}

impl Writer {
    fn new<const N: usize>(description: &Description<N>) -> Writer {
        let mut writer = Writer {
            profile: Profile::default(),
            texts: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            named_locations: HashMap::new(),
        };
        // The first text of the table is empty.
        writer.text("");
        let since = description.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writer.profile.time_nanos = nanoseconds(since);
        writer.profile.duration_nanos = nanoseconds(description.duration);
        writer.profile.sample_type =
            description.kinds.iter().map(|kind| writer.value_type(*kind)).collect();
        writer.profile.period_type = Some(writer.value_type(description.period.0));
        writer.profile.period = description.period.1;
        writer.profile.default_sample_type = writer.text(description.default_kind);
        writer.profile.comment =
            description.comments.iter().map(|comment| writer.text(comment)).collect();
        writer
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(index) = self.texts.get(text) {
            return *index;
        }
        let index = i64::try_from(self.profile.string_table.len()).unwrap_or(0);
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, (kind, unit): ValueKind) -> ValueType {
        ValueType { kind: self.text(kind), unit: self.text(unit) }
    }

    fn add_mappings(&mut self, files: &[MappedFile]) {
        for (id, file) in (1..).zip(files) {
            let build_id = hexadecimal(&build_id(file));
            let mapping = Mapping {
                id,
                memory_start: file.addresses.start,
                memory_limit: file.addresses.end,
                file_offset: file.offset,
                filename: self.text(&file.path),
                build_id: self.text(&build_id),
                ..Mapping::default()
            };
            self.profile.mapping.push(mapping);
        }
    }

    /// Returns the id of an address.
    fn location(&mut self, address: u64, symbols: &Symbols, files: &[MappedFile]) -> u64 {
        if let Some(id) = self.locations.get(&address) {
            return *id;
        }
        let calls = symbols.get(address);
        let at = files.iter().position(|file| file.addresses.contains(&address));
        if let Some(mapping) = at.and_then(|at| self.profile.mapping.get_mut(at)) {
            mapping.has_functions |= !calls.is_empty();
            mapping.has_filenames |= calls.iter().any(|call| !call.file.is_empty());
            mapping.has_line_numbers |= calls.iter().any(|call| call.line > 0);
            mapping.has_inline_frames |= calls.len() > 1;
        }
        let id = self.profile.location.len() as u64 + 1;
        let line = calls.iter().map(|call| self.line(call)).collect();
        let mapping_id = at.map_or(0, |at| at as u64 + 1);
        self.profile.location.push(Location { id, mapping_id, address, line });
        self.locations.insert(address, id);
        id
    }

    /// Returns the id of a location that is only a name.
    fn named_location(&mut self, name: &str) -> u64 {
        if let Some(id) = self.named_locations.get(name) {
            return *id;
        }
        let id = self.profile.location.len() as u64 + 1;
        let call = Call { function: name.to_owned(), ..Call::default() };
        let line = vec![self.line(&call)];
        self.profile.location.push(Location { id, line, ..Default::default() });
        self.named_locations.insert(name.to_owned(), id);
        id
    }

    fn line(&mut self, call: &Call) -> Line {
        Line { function_id: self.function(call), line: call.line.into() }
    }

    fn function(&mut self, call: &Call) -> u64 {
        let key = (call.function.clone(), call.file.clone());
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.profile.function.len() as u64 + 1;
        let (name, filename) = (self.text(&call.function), self.text(&call.file));
        // Without a system name, tools take the name as it is: they would remove everything in
        // angle brackets, as if the name were one of C++.
        let function = Function { id, name, filename };
        self.profile.function.push(function);
        self.functions.insert(key, id);
        id
    }

    fn add_sample<const N: usize>(&mut self, ids: Vec<u64>, counts: &[i64; N], thread: &str) {
        let label = (!thread.is_empty()).then(|| Label {
            key: self.text("thread"),
            str: self.text(thread),
            ..Label::default()
        });
        self.profile.sample.push(Sample {
            location_id: ids,
            value: counts.to_vec(),
            label: label.into_iter().collect(),
        });
    }

    fn finish(self) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to a vector never fails.
        let _ = gzip.write_all(&self.profile.encode_to_vec());
        gzip.finish().unwrap_or_default()
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The message, with the names and numbers that pprof's tools read.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(crate) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(crate) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(crate) duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(crate) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(crate) period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub(crate) comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub(crate) default_sample_type: i64,
}

/// The meaning of a counter; both fields are indexes of texts.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(crate) kind: i64,
    #[prost(int64, tag = "2")]
    pub(crate) unit: i64,
}

/// A stack, innermost location first, with its counters.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) label: Vec<Label>,
}

/// A named value of a sample.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Label {
    #[prost(int64, tag = "1")]
    pub(crate) key: i64,
    #[prost(int64, tag = "2")]
    pub(crate) str: i64,
    #[prost(int64, tag = "3")]
    pub(crate) num: i64,
}

/// A range of addresses with code of a file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) file_offset: u64,
    #[prost(int64, tag = "5")]
    pub(crate) filename: i64,
    #[prost(int64, tag = "6")]
    pub(crate) build_id: i64,
    #[prost(bool, tag = "7")]
    pub(crate) has_functions: bool,
    #[prost(bool, tag = "8")]
    pub(crate) has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub(crate) has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub(crate) has_inline_frames: bool,
}

/// An address, with the functions that are there: inlined ones first.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Location {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) address: u64,
    #[prost(message, repeated, tag = "4")]
    pub(crate) line: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Line {
    #[prost(uint64, tag = "1")]
    pub(crate) function_id: u64,
    #[prost(int64, tag = "2")]
    pub(crate) line: i64,
}

/// A function; all but the id are indexes of texts.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Function {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(int64, tag = "2")]
    pub(crate) name: i64,
    #[prost(int64, tag = "4")]
    pub(crate) filename: i64,
}

#[cfg(test)]
pub(crate) mod tests;
