//! Generates `shapes.rs`: tables of the gateway's routes, of all requests, and of the messages and
//! enums they contain.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    Value,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Returns the tables as Rust source.
pub(crate) fn rust(pool: &DescriptorPool) -> Result<String> {
    let mut tables = Tables::default();
    let (mut routes, mut requests) = (String::new(), String::new());
    for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let request = tables.message(&method.input())?;
        writeln!(requests, "    ({:?}, &{request}),", path(&method))?;
        for path in paths(pool, &method)? {
            tables.route(&mut routes, &path, &method)?;
        }
    }
    let mut rust =
        format!("/// All paths of the gateway.\npub static ROUTES: &[Route] = &[\n{routes}];\n");
    writeln!(rust, "static REQUESTS: &[(&str, &Message)] = &[\n{requests}];")?;
    rust.extend(tables.0.into_values());
    Ok(rust)
}

/// Returns the gRPC path of a method.
fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// Returns the gateway paths of a method.
fn paths(pool: &DescriptorPool, method: &MethodDescriptor) -> Result<Vec<String>> {
    let http = pool.get_extension_by_name("google.api.http").ok_or("google.api.http is gone")?;
    let options = method.options();
    if !options.has_extension(&http) {
        return Ok(Vec::new());
    }
    let rule = options.get_extension(&http);
    let rule = rule.as_message().ok_or("google.api.http is a message")?;
    let more = rule.get_field_by_name("additional_bindings").ok_or("no additional_bindings")?;
    let more = more.as_list().ok_or("additional_bindings is a list")?;
    let more = more.iter().filter_map(Value::as_message);
    let post = |rule: &prost_reflect::DynamicMessage| {
        Some(rule.get_field_by_name("post")?.as_str()?.to_owned())
    };
    let all: Option<Vec<String>> = std::iter::once(rule).chain(more).map(post).collect();
    all.ok_or_else(|| format!("{} has a route other than POST", method.full_name()).into())
}

/// Generated tables by name.
#[derive(Default)]
struct Tables(BTreeMap<String, String>);

impl Tables {
    fn route(&mut self, out: &mut String, path: &str, method: &MethodDescriptor) -> Result<()> {
        let name = method.name();
        let streams = match (method.is_client_streaming(), method.is_server_streaming()) {
            (false, false) => "Unary",
            (false, true) => "Server",
            (true, true) => "Both",
            (true, false) => {
                return Err(format!(
                    "{name}: client streaming without server streaming is not supported"
                )
                .into());
            }
        };
        writeln!(
            out,
            "    Route {{ path: {path:?}, method: {:?}, streams: Streams::{streams}, request: &{}, response: &{} }},",
            self::path(method),
            self.message(&method.input())?,
            self.message(&method.output())?,
        )?;
        Ok(())
    }

    /// Returns the name of a message's table, generating it if needed.
    fn message(&mut self, message: &MessageDescriptor) -> Result<String> {
        let name = upper(message.full_name());
        if self.0.contains_key(&name) {
            return Ok(name);
        }
        // Insert it before visiting the fields: a message may contain itself.
        self.0.insert(name.clone(), String::new());
        if !message.descriptor_proto().field.is_sorted_by(|a, b| a.number() < b.number()) {
            // Bytes have fields by number, JSON in declaration order. Streaming translation needs
            // both orders to be equal.
            return Err(
                format!("{name}: fields are not declared in the order of their numbers").into()
            );
        }
        let mut fields = String::new();
        for field in message.fields() {
            self.field(&mut fields, &field)?;
        }
        let rust = format!("static {name}: Message = Message {{ fields: &[\n{fields}] }};\n");
        self.0.insert(name.clone(), rust);
        Ok(name)
    }

    fn field(&mut self, out: &mut String, field: &FieldDescriptor) -> Result<()> {
        if field.is_map() {
            return Err(format!("{}: maps are not supported", field.full_name()).into());
        }
        let oneof = field.containing_oneof();
        let oneof = oneof.map(|oneof| oneof.full_name().to_owned());
        writeln!(
            out,
            "    Field {{ number: {}, name: {:?}, json_name: {:?}, kind: {}, repeated: {}, oneof: {oneof:?} }},",
            field.number(),
            field.name(),
            field.json_name(),
            self.kind(field)?,
            field.is_list(),
        )?;
        Ok(())
    }

    fn kind(&mut self, field: &FieldDescriptor) -> Result<String> {
        Ok(match field.kind() {
            Kind::Message(message) => format!("Kind::Message(&{})", self.message(&message)?),
            Kind::Enum(values) => format!("Kind::Enum(&{})", self.values(&values)?),
            Kind::Bool => "Kind::Bool".to_owned(),
            Kind::Int32 => "Kind::Int32".to_owned(),
            Kind::Int64 => "Kind::Int64".to_owned(),
            Kind::Uint32 => "Kind::Uint32".to_owned(),
            Kind::Uint64 => "Kind::Uint64".to_owned(),
            Kind::String => "Kind::String".to_owned(),
            Kind::Bytes => "Kind::Bytes".to_owned(),
            kind => return Err(format!("{}: {kind:?} is not supported", field.full_name()).into()),
        })
    }

    /// Returns the name of an enum's table, generating it.
    fn values(&mut self, of: &EnumDescriptor) -> Result<String> {
        let name = upper(of.full_name());
        let mut values = String::new();
        for value in of.values() {
            write!(values, "({}, {:?}), ", value.number(), value.name())?;
        }
        let rust = format!("static {name}: Enum = Enum {{ values: &[{values}] }};\n");
        self.0.insert(name.clone(), rust);
        Ok(name)
    }
}

/// `etcdserverpb.RangeRequest` is `ETCDSERVERPB_RANGEREQUEST`.
fn upper(name: &str) -> String {
    name.replace('.', "_").to_uppercase()
}
