//! Version annotations of messages, read from their descriptors.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

use super::Version;

/// Reason why a message could not be inspected.
#[derive(Debug)]
pub(super) enum VisitError {
    Decode(DecodeError),
    UnknownValue(u64),
}

impl From<DecodeError> for VisitError {
    fn from(error: DecodeError) -> VisitError {
        VisitError::Decode(error)
    }
}

/// All annotations, by the full name of the message or enum.
#[derive(Debug, Default)]
pub(super) struct VersionAnnotations {
    messages: BTreeMap<String, MessageAnnotations>,
    enums: BTreeMap<String, EnumAnnotations>,
}

#[derive(Debug)]
struct MessageAnnotations {
    since: Option<Version>,
    fields: BTreeMap<u32, FieldAnnotations>,
}

#[derive(Debug)]
struct FieldAnnotations {
    since: Option<Version>,
    /// A zero value counts as absent.
    zero_is_absent: bool,
    kind: FieldKind,
}

#[derive(Debug)]
enum FieldKind {
    /// Not inspected.
    Plain,
    Message(String),
    Enum(String),
}

#[derive(Debug)]
struct EnumAnnotations {
    since: Option<Version>,
    /// By number; etcd's enums have no gaps.
    values: Vec<Option<Version>>,
}

impl VersionAnnotations {
    /// The annotations of the messages in `proto`.
    pub(super) fn get() -> &'static VersionAnnotations {
        static MARKS: OnceLock<VersionAnnotations> = OnceLock::new();
        MARKS.get_or_init(|| {
            let files = Files::decode(proto::FILE_DESCRIPTOR_SET);
            VersionAnnotations::collect(&files.expect("the descriptors were encoded at build time"))
        })
    }

    fn collect(files: &Files) -> VersionAnnotations {
        let mut annotations = VersionAnnotations::default();
        for file in &files.files {
            let proto3 = file.syntax == "proto3";
            file.messages
                .iter()
                .for_each(|message| annotations.add_message(&file.package, message, proto3));
            file.enums.iter().for_each(|one| annotations.add_enum(&file.package, one));
        }
        annotations
    }

    fn add_message(&mut self, scope: &str, message: &MessageType, proto3: bool) {
        let name = format!("{scope}.{}", message.name);
        let field = |field: &Field| (field.number, FieldAnnotations::new(field, proto3));
        let fields = message.fields.iter().map(field).collect();
        let since = version(message.options.as_ref().map(|options| &options.since));
        message.messages.iter().for_each(|inner| self.add_message(&name, inner, proto3));
        message.enums.iter().for_each(|inner| self.add_enum(&name, inner));
        self.messages.insert(name, MessageAnnotations { since, fields });
    }

    fn add_enum(&mut self, scope: &str, one: &EnumType) {
        let since = version(one.options.as_ref().map(|options| &options.since));
        let value =
            |value: &EnumValue| version(value.options.as_ref().map(|options| &options.since));
        let values = one.values.iter().map(value).collect();
        self.enums.insert(format!("{scope}.{}", one.name), EnumAnnotations { since, values });
    }

    /// Returns the newest version of anything that an encoded message uses.
    pub(super) fn newest(
        &self,
        name: &str,
        mut bytes: &[u8],
    ) -> Result<Option<Version>, VisitError> {
        let Some(message) = self.messages.get(name) else {
            return Ok(None);
        };
        let mut newest = message.since;
        while !bytes.is_empty() {
            let (number, wire) = decode_key(&mut bytes)?;
            let value = take_value(&mut bytes, number, wire)?;
            if let Some(field) = message.fields.get(&number) {
                newest = newest.max(self.field(field, value)?);
            }
        }
        Ok(newest)
    }

    fn field(
        &self,
        field: &FieldAnnotations,
        value: Value<'_>,
    ) -> Result<Option<Version>, VisitError> {
        if field.zero_is_absent && value.is_zero() {
            return Ok(None);
        }
        let inner = match (&field.kind, value) {
            (FieldKind::Message(name), Value::Bytes(bytes)) => self.newest(name, bytes)?,
            (FieldKind::Enum(name), Value::Number(number)) => self.enum_value(name, number)?,
            _ => None,
        };
        Ok(field.since.max(inner))
    }

    fn enum_value(&self, name: &str, number: u64) -> Result<Option<Version>, VisitError> {
        let Some(one) = self.enums.get(name) else {
            return Ok(None);
        };
        let value = usize::try_from(number).ok().and_then(|number| one.values.get(number));
        let since = value.ok_or(VisitError::UnknownValue(number))?;
        Ok(one.since.max(*since))
    }
}

impl FieldAnnotations {
    fn new(field: &Field, proto3: bool) -> FieldAnnotations {
        /// Constants of `google.protobuf.FieldDescriptorProto`.
        const REPEATED: i32 = 3;
        const MESSAGE: i32 = 11;
        const ENUM: i32 = 14;
        let name = field.type_name.trim_start_matches('.').to_owned();
        let kind = match field.kind {
            _ if field.label == REPEATED => FieldKind::Plain,
            MESSAGE => FieldKind::Message(name),
            ENUM => FieldKind::Enum(name),
            _ => FieldKind::Plain,
        };
        FieldAnnotations {
            since: version(field.options.as_ref().map(|options| &options.since)),
            zero_is_absent: proto3
                && field.kind != MESSAGE
                && field.label != REPEATED
                && field.oneof_index.is_none(),
            kind,
        }
    }
}

fn version(annotation: Option<&String>) -> Option<Version> {
    let annotation = annotation.filter(|annotation| !annotation.is_empty())?;
    Some(annotation.parse().expect("annotations are versions"))
}

/// A field value in its wire encoding.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

impl Value<'_> {
    fn is_zero(self) -> bool {
        match self {
            Value::Number(number) => number == 0,
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Other => false,
        }
    }
}

fn take_value<'a>(
    bytes: &mut &'a [u8],
    number: u32,
    wire: WireType,
) -> Result<Value<'a>, DecodeError> {
    match wire {
        WireType::Varint => Ok(Value::Number(decode_varint(bytes)?)),
        WireType::LengthDelimited => {
            let len = usize::try_from(decode_varint(bytes)?).unwrap_or(usize::MAX);
            match bytes.split_at_checked(len) {
                Some((value, rest)) => {
                    *bytes = rest;
                    Ok(Value::Bytes(value))
                }
                // Produces prost's error for truncated input.
                None => Err(skip_field(wire, number, &mut &[][..], DecodeContext::default())
                    .expect_err("an empty buffer has no field")),
            }
        }
        _ => {
            skip_field(wire, number, bytes, DecodeContext::default())?;
            Ok(Value::Other)
        }
    }
}

/// The needed part of `google.protobuf.FileDescriptorSet`.
#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(message, repeated, tag = "1")]
    files: Vec<File>,
}

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<MessageType>,
    #[prost(message, repeated, tag = "5")]
    enums: Vec<EnumType>,
    #[prost(string, tag = "12")]
    syntax: String,
}

#[derive(Clone, PartialEq, Message)]
struct MessageType {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    messages: Vec<MessageType>,
    #[prost(message, repeated, tag = "4")]
    enums: Vec<EnumType>,
    #[prost(message, optional, tag = "7")]
    options: Option<MessageOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(uint32, tag = "3")]
    number: u32,
    #[prost(int32, tag = "4")]
    label: i32,
    #[prost(int32, tag = "5")]
    kind: i32,
    #[prost(string, tag = "6")]
    type_name: String,
    #[prost(message, optional, tag = "8")]
    options: Option<FieldOptions>,
    #[prost(int32, optional, tag = "9")]
    oneof_index: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct EnumType {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    values: Vec<EnumValue>,
    #[prost(message, optional, tag = "3")]
    options: Option<EnumOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct EnumValue {
    #[prost(message, optional, tag = "3")]
    options: Option<EnumValueOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct MessageOptions {
    #[prost(string, tag = "50000")]
    since: String,
}

#[derive(Clone, PartialEq, Message)]
struct FieldOptions {
    #[prost(string, tag = "50001")]
    since: String,
}

#[derive(Clone, PartialEq, Message)]
struct EnumOptions {
    #[prost(string, tag = "50002")]
    since: String,
}

#[derive(Clone, PartialEq, Message)]
struct EnumValueOptions {
    #[prost(string, tag = "50003")]
    since: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The annotations are read with a partial schema of descriptors; a full reader must find the
    /// same.
    #[test]
    fn every_annotation_is_found() {
        let pool = prost_reflect::DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
        let annotation = |options: prost_reflect::DynamicMessage, number| {
            let found = options.extensions().find(|(extension, _)| extension.number() == number);
            found.map(|(_, value)| value.as_str().unwrap().parse::<Version>().unwrap())
        };
        let mut marked = 0;
        for message in pool.all_messages() {
            let ours = &VersionAnnotations::get().messages[message.full_name()];
            assert_eq!(ours.since, annotation(message.options(), 50000), "{}", message.full_name());
            for field in message.fields() {
                let theirs = annotation(field.options(), 50001);
                assert_eq!(ours.fields[&field.number()].since, theirs, "{}", field.full_name());
                marked += usize::from(theirs.is_some());
            }
        }
        for one in pool.all_enums() {
            let ours = &VersionAnnotations::get().enums[one.full_name()];
            assert_eq!(ours.since, annotation(one.options(), 50002), "{}", one.full_name());
            for (at, value) in one.values().enumerate() {
                let theirs = annotation(value.options(), 50003);
                assert_eq!(ours.values[at], theirs, "{}", value.full_name());
            }
            let ours_of_etcd = !one.full_name().starts_with("google");
            let without_gaps = (0..).zip(one.values()).all(|(at, value)| value.number() == at);
            assert!(without_gaps || !ours_of_etcd, "{} is looked up by number", one.full_name());
        }
        assert!(marked > 40, "only {marked} annotated fields");
    }
}
