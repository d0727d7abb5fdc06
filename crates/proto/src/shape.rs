//! Tables that describe messages at run time, for the JSON gateway and for error messages.
//!
//! ```text
//!   /v3/kv/range  ─►  /etcdserverpb.KV/Range   RangeRequest   1 key        bytes
//!                                                             2 range_end  bytes      rangeEnd
//!                                                             5 sort_order SortOrder  sortOrder
//!                                                               0 NONE, 1 ASCEND, 2 DESCEND
//!                                              RangeResponse  …
//! ```
//!
//! The build generates the tables from the same files as the types, for all routes and requests and
//! the messages they contain. They are constants and need no initialization.

/// A path of the JSON gateway with its method.
#[derive(Debug)]
pub struct Route {
    /// The path, such as `/v3/kv/range`.
    pub path: &'static str,
    /// The path of the method in gRPC, such as `/etcdserverpb.KV/Range`.
    pub method: &'static str,
    /// The number of messages in each direction.
    pub streams: Streams,
    /// The request message.
    pub request: &'static Message,
    /// The response message.
    pub response: &'static Message,
}

/// The number of messages in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// A request and a response.
    Unary,
    /// A request and many responses.
    Server,
    /// Many requests, many responses.
    Both,
}

/// A message.
#[derive(Debug)]
pub struct Message {
    /// The fields by number, which is also the declaration order.
    pub fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// The field number.
    pub number: u32,
    /// The name in the .proto file.
    pub name: &'static str,
    /// The JSON name in camel case, such as `rangeEnd`.
    pub json_name: &'static str,
    /// The type of the field.
    pub kind: Kind,
    /// Whether the field is repeated.
    pub repeated: bool,
    /// The full name of the oneof that the field belongs to, if any.
    pub oneof: Option<&'static str>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named as protobuf names them")]
pub enum Kind {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    String,
    Bytes,
    Enum(&'static Enum),
    Message(&'static Message),
}

/// An enum.
#[derive(Debug)]
pub struct Enum {
    /// The values with their names.
    pub values: &'static [(i32, &'static str)],
}

impl Message {
    /// Returns the field with this number.
    pub fn field(&self, number: u32) -> Option<&'static Field> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number);
        at.ok().map(|at| &self.fields[at])
    }

    /// Returns the field with this JSON name or .proto name.
    pub fn named(&self, name: &str) -> Option<&'static Field> {
        let by_json = self.fields.iter().find(|field| field.json_name == name);
        by_json.or_else(|| self.fields.iter().find(|field| field.name == name))
    }
}

impl Enum {
    /// Returns the name of a value.
    pub fn name(&self, number: i32) -> Option<&'static str> {
        self.values.iter().find(|(value, _)| *value == number).map(|(_, name)| *name)
    }

    /// Returns the value of a name.
    pub fn number(&self, name: &str) -> Option<i32> {
        self.values.iter().find(|(_, given)| *given == name).map(|(value, _)| *value)
    }
}

impl Route {
    /// Returns the route of a path.
    pub fn find(path: &str) -> Option<&'static Route> {
        ROUTES.iter().find(|route| route.path == path)
    }
}

/// Returns the request message of a gRPC path, such as `/etcdserverpb.KV/Range`.
pub fn request(path: &str) -> Option<&'static Message> {
    REQUESTS.iter().find(|(method, _)| *method == path).map(|(_, request)| *request)
}

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_a_method_and_its_messages() {
        let route = Route::find("/v3/kv/range").expect("a route");
        assert_eq!((route.method, route.streams), ("/etcdserverpb.KV/Range", Streams::Unary));
        let end = route.request.named("rangeEnd").expect("a field");
        assert_eq!((end.number, end.name, end.repeated), (2, "range_end", false));
        assert!(std::ptr::eq(route.request.named("range_end").expect("a field"), end));
        assert!(route.request.named("RangeEnd").is_none());
        let Kind::Enum(order) = route.request.named("sort_order").expect("a field").kind else {
            panic!("sort_order is an enum");
        };
        assert_eq!((order.number("DESCEND"), order.name(1)), (Some(2), Some("ASCEND")));
    }

    #[test]
    fn methods_without_a_route_have_a_request_table() {
        let range = Route::find("/v3/kv/range").expect("a route").request;
        let streamed = request("/etcdserverpb.KV/RangeStream").expect("a method");
        assert!(std::ptr::eq(streamed, range));
        assert!(request("/grpc.health.v1.Health/Check").is_some());
        assert!(request("/etcdserverpb.KV/None").is_none());
    }

    #[test]
    fn some_methods_have_two_paths() {
        let method = |path| Route::find(path).expect("a route").method;
        assert_eq!(method("/v3/kv/lease/revoke"), method("/v3/lease/revoke"));
        assert_eq!(Route::find("/v3/watch").expect("a route").streams, Streams::Both);
        assert!(Route::find("/v3/kv/rangestream").is_none());
    }

    #[test]
    fn a_message_may_contain_itself() {
        let txn = Route::find("/v3/kv/txn").expect("a route").request;
        let Kind::Message(op) = txn.named("success").expect("a field").kind else {
            panic!("operations are messages");
        };
        let inner = op.named("request_txn").expect("a field");
        assert_eq!(inner.oneof, Some("etcdserverpb.RequestOp.request"));
        assert!(matches!(inner.kind, Kind::Message(inner) if std::ptr::eq(inner, txn)));
    }
}
