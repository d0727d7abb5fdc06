//! The methods of an application, found by the path of a request.
//!
//! ```text
//!   /etcdserverpb.KV/Range          unary
//!   /etcdserverpb.Watch/Watch       bidi_stream
//!    service          method        kind
//! ```

use std::collections::{HashMap, HashSet};

/// The number of messages in each direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A single request and a single reply.
    Unary,
    /// A single request and many replies.
    ServerStream,
    /// Many requests and many replies.
    BidiStream,
}

impl Kind {
    /// The name in the `grpc_type` label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Unary => "unary",
            Kind::ServerStream => "server_stream",
            Kind::BidiStream => "bidi_stream",
        }
    }
}

/// An RPC.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// The path of its requests: `/etcdserverpb.KV/Range`.
    pub path: &'static str,
    /// The full name of its service: `etcdserverpb.KV`.
    pub service: &'static str,
    /// The name of the method: `Range`.
    pub name: &'static str,
    /// The number of messages in each direction.
    pub kind: Kind,
}

/// All methods of an application.
#[derive(Debug)]
pub struct MethodTable {
    methods: &'static [Method],
    by_path: HashMap<&'static str, usize>,
    services: HashSet<&'static str>,
}

impl MethodTable {
    /// Indexes the methods by path.
    pub fn new(methods: &'static [Method]) -> MethodTable {
        MethodTable {
            methods,
            by_path: methods.iter().enumerate().map(|(at, method)| (method.path, at)).collect(),
            services: methods.iter().map(|method| method.service).collect(),
        }
    }

    /// Returns the method of a path with its position in the table.
    pub fn find(&self, path: &str) -> Option<(usize, &'static Method)> {
        self.by_path.get(path).map(|at| (*at, &self.methods[*at]))
    }

    /// Reports whether any method belongs to the service.
    pub fn has_service(&self, name: &str) -> bool {
        self.services.contains(name)
    }
}
