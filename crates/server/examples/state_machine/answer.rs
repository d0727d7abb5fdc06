//! Answers as clients of etcd see them.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use proto::etcdserverpb::ResponseHeader;
use server::Refusal;

/// Why there is no answer: a code of gRPC, and etcd's text.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: u8,
    pub(crate) text: String,
}

const UNKNOWN: u8 = 2;
const INVALID_ARGUMENT: u8 = 3;
const NOT_FOUND: u8 = 5;
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const FAILED_PRECONDITION: u8 = 9;
const OUT_OF_RANGE: u8 = 11;
const UNIMPLEMENTED: u8 = 12;
const DATA_LOSS: u8 = 15;
const UNAUTHENTICATED: u8 = 16;

impl Refused {
    /// Longer than a request may be.
    pub(crate) fn too_large() -> Refused {
        Refused::new(INVALID_ARGUMENT, "etcdserver: request is too large")
    }

    fn new(code: u8, text: impl Into<String>) -> Refused {
        Refused { code, text: text.into() }
    }
}

impl From<mvcc::check::Refused> for Refused {
    fn from(refused: mvcc::check::Refused) -> Refused {
        use mvcc::check::Refused as R;
        let code = match refused {
            R::StreamOrder | R::StreamFilters => UNIMPLEMENTED,
            _ => INVALID_ARGUMENT,
        };
        Refused::new(code, refused.to_string())
    }
}

impl From<&mvcc::Error> for Refused {
    fn from(error: &mvcc::Error) -> Refused {
        use mvcc::Error as E;
        match error {
            E::Compacted | E::FutureRevision => {
                Refused::new(OUT_OF_RANGE, format!("etcdserver: {error}"))
            }
            E::LeaseNotFound => Refused::new(NOT_FOUND, LEASE_NOT_FOUND),
            E::KeyNotFound => Refused::new(INVALID_ARGUMENT, error.to_string()),
            E::Fault(fault) => panic!("{fault}"),
        }
    }
}

const LEASE_NOT_FOUND: &str = "etcdserver: requested lease not found";

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Refused {
        use lease::GrantError as G;
        match refusal {
            Refusal::Keys(error) => error.into(),
            Refusal::Auth(error) => error.into(),
            Refusal::Grant(G::Exists) => {
                Refused::new(FAILED_PRECONDITION, "etcdserver: lease already exists")
            }
            Refusal::Grant(G::TtlTooLarge) => {
                Refused::new(OUT_OF_RANGE, "etcdserver: too large lease TTL")
            }
            Refusal::Grant(G::NotFound) | Refusal::Revoke(_) => {
                Refused::new(NOT_FOUND, LEASE_NOT_FOUND)
            }
            Refusal::NoSpace => {
                Refused::new(RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
            }
            Refusal::Corrupt => Refused::new(DATA_LOSS, refusal.to_string()),
        }
    }
}

impl From<&auth::Error> for Refused {
    fn from(error: &auth::Error) -> Refused {
        use auth::Error as E;
        let (code, text) = match error {
            E::RootUserNotExist => (FAILED_PRECONDITION, "root user does not exist"),
            E::RootRoleNotExist => (FAILED_PRECONDITION, "root user does not have root role"),
            E::UserAlreadyExist => (FAILED_PRECONDITION, "user name already exists"),
            E::UserEmpty => (INVALID_ARGUMENT, "user name is empty"),
            E::UserNotFound => (FAILED_PRECONDITION, "user name not found"),
            E::RoleAlreadyExist => (FAILED_PRECONDITION, "role name already exists"),
            E::RoleNotFound => (FAILED_PRECONDITION, "role name not found"),
            E::RoleEmpty => (INVALID_ARGUMENT, "role name is empty"),
            E::PermissionNotGiven => (INVALID_ARGUMENT, "permission not given"),
            E::AuthFailed => {
                (INVALID_ARGUMENT, "authentication failed, invalid user ID or password")
            }
            E::PermissionDenied => (PERMISSION_DENIED, "permission denied"),
            E::RoleNotGranted => (FAILED_PRECONDITION, "role is not granted to the user"),
            E::PermissionNotGranted => {
                (FAILED_PRECONDITION, "permission is not granted to the role")
            }
            E::AuthNotEnabled => (FAILED_PRECONDITION, "authentication is not enabled"),
            E::AuthOldRevision => (INVALID_ARGUMENT, "revision of auth store is old"),
            E::InvalidAuthToken => (UNAUTHENTICATED, "invalid auth token"),
            E::InvalidAuthMgmt => (INVALID_ARGUMENT, "invalid auth management"),
            other => return Refused::new(UNKNOWN, other.to_string()),
        };
        Refused::new(code, format!("etcdserver: {text}"))
    }
}

/// A message with a header that has nothing but a revision. The header is the first field of every answer.
pub(crate) fn with_header(revision: i64, message: &impl Message) -> Bytes {
    let header = ResponseHeader { revision, ..ResponseHeader::default() };
    let mut out = BytesMut::new();
    out.put_u8(0x0a);
    header.encode_length_delimited(&mut out).expect("grows as needed");
    message.encode(&mut out).expect("grows as needed");
    out.freeze()
}
