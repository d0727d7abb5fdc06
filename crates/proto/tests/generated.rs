//! The generated types agree with the descriptors: numbers, types, packing, nesting.
//!
//! `prost-reflect` is a second implementation that reads the descriptors. It fills every field of
//! every message, one at a time and all together; the generated type must decode and encode the
//! same bytes.

mod known;

use std::collections::BTreeMap;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};

/// Returns the messages that exist as Rust types.
fn messages() -> impl Iterator<Item = MessageDescriptor> {
    let pool = DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET)
        .expect("the build made valid descriptors");
    let ours = |message: &MessageDescriptor| {
        !message.package_name().starts_with("google") && !message.is_map_entry()
    };
    pool.all_messages().filter(ours).collect::<Vec<_>>().into_iter()
}

/// Returns a value that reveals a wrong type: large, and negative where possible.
fn scalar(kind: &Kind, depth: usize) -> Value {
    match kind {
        Kind::Int64 => Value::I64(-3),
        Kind::Uint64 => Value::U64(u64::MAX - 3),
        Kind::Uint32 => Value::U32(u32::MAX - 3),
        Kind::Bool => Value::Bool(true),
        Kind::String => Value::String("ü".into()),
        Kind::Bytes => Value::Bytes(vec![0xff, 0x00].into()),
        Kind::Enum(kind) => {
            Value::EnumNumber(kind.values().last().expect("enums have values").number())
        }
        Kind::Message(kind) => Value::Message(filled(kind, depth)),
        other => panic!("etcd has no field of kind {other:?}"),
    }
}

fn value(field: &FieldDescriptor, depth: usize) -> Value {
    if field.is_map() {
        let entry =
            field.kind().as_message().expect("map entries are messages").map_entry_value_field();
        let content = scalar(&entry.kind(), depth);
        return Value::Map([(MapKey::String("k".into()), content)].into());
    }
    let one = scalar(&field.kind(), depth);
    if field.is_list() { Value::List(vec![one.clone(), one]) } else { one }
}

/// Returns a message with every field set, down to a depth; of a oneof, the last member.
fn filled(kind: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(kind.clone());
    if depth > 0 {
        for field in kind.fields() {
            message.set_field(&field, value(&field, depth - 1));
        }
    }
    message
}

#[test]
fn every_message_has_a_type() {
    let types: Vec<_> = known::kinds().into_keys().collect();
    let mut names: Vec<_> = messages().map(|message| message.full_name().to_owned()).collect();
    names.sort();
    assert_eq!(types, names);
}

#[test]
fn every_field_is_read_and_written_as_described() {
    let kinds: BTreeMap<_, _> = known::kinds();
    let mut fields = 0;
    for kind in messages() {
        let recode = kinds[kind.full_name()];
        for field in kind.fields() {
            let mut message = DynamicMessage::new(kind.clone());
            message.set_field(&field, value(&field, 2));
            let bytes = message.encode_to_vec();
            assert_eq!(recode(&bytes).as_ref(), Ok(&bytes), "{}", field.full_name());
            fields += 1;
        }
        let all = filled(&kind, 4).encode_to_vec();
        assert_eq!(recode(&all).as_ref(), Ok(&all), "all fields of {}", kind.full_name());
    }
    assert!(fields > 300, "only {fields} fields were tried");
}
