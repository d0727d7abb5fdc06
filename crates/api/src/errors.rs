//! etcd's error table: the code and text of every error that clients know.
//!
//! ```text
//!   lease::RevokeError::NotFound ──┬─► Canonical::LeaseNotFound ──► NotFound, "etcdserver:
//!   mvcc::Error::LeaseNotFound ────┘      (a row of the table)        requested lease not found"
//!   any error without a row ─────────────────────────────────────► Unknown, with its own text
//! ```
//!
//! Clients compare texts and retry by code: both are etcd's to the letter (`testdata/errors`). Rows
//! without a source are kept, because the table is also how a client recognizes an error.

use grpc::{Code, Status};

use crate::validate::InvalidRequest;

macro_rules! canonical {
    ($($symbol:ident: $code:ident $text:literal,)*) => {
        /// An error that clients know, with etcd's name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the text says it")]
        pub enum Canonical {
            $($symbol,)*
        }

        impl Canonical {
            /// All rows of the table.
            pub const ALL: &[Canonical] = &[$(Canonical::$symbol,)*];

            /// The name in etcd's source.
            pub fn symbol(self) -> &'static str {
                match self { $(Canonical::$symbol => stringify!($symbol),)* }
            }

            /// The gRPC code.
            pub fn code(self) -> Code {
                match self { $(Canonical::$symbol => Code::$code,)* }
            }

            /// The text that clients compare.
            pub fn text(self) -> &'static str {
                match self { $(Canonical::$symbol => $text,)* }
            }
        }
    };
}

// Compat: `MemberNotEnoughStarted` and `TooManyRequests` are declared as `FailedPrecondition` and
// `ResourceExhausted` in etcd, but reach its clients as `Unknown`.
canonical! {
    EmptyKey: InvalidArgument "etcdserver: key is not provided",
    KeyNotFound: InvalidArgument "etcdserver: key not found",
    ValueProvided: InvalidArgument "etcdserver: value is provided",
    LeaseProvided: InvalidArgument "etcdserver: lease is provided",
    TooManyOps: InvalidArgument "etcdserver: too many operations in txn request",
    DuplicateKey: InvalidArgument "etcdserver: duplicate key given in txn request",
    InvalidClientAPIVersion: InvalidArgument "etcdserver: invalid client api version",
    InvalidSortOption: InvalidArgument "etcdserver: invalid sort option",
    Compacted: OutOfRange "etcdserver: mvcc: required revision has been compacted",
    FutureRev: OutOfRange "etcdserver: mvcc: required revision is a future revision",
    NoSpace: ResourceExhausted "etcdserver: mvcc: database space exceeded",
    LeaseNotFound: NotFound "etcdserver: requested lease not found",
    LeaseExist: FailedPrecondition "etcdserver: lease already exists",
    LeaseTTLTooLarge: OutOfRange "etcdserver: too large lease TTL",
    WatchCanceled: Canceled "etcdserver: watch canceled",
    MemberExist: FailedPrecondition "etcdserver: member ID already exist",
    PeerURLExist: FailedPrecondition "etcdserver: Peer URLs already exists",
    MemberNotEnoughStarted: Unknown "etcdserver: re-configuration failed due to not enough started members",
    MemberBadURLs: InvalidArgument "etcdserver: given member URLs are invalid",
    MemberNotFound: NotFound "etcdserver: member not found",
    MemberNotLearner: FailedPrecondition "etcdserver: can only promote a learner member",
    LearnerNotReady: FailedPrecondition "etcdserver: can only promote a learner member which is in sync with leader",
    TooManyLearners: FailedPrecondition "etcdserver: too many learner members in cluster",
    ClusterIDMismatch: FailedPrecondition "etcdserver: cluster ID mismatch",
    RequestTooLarge: InvalidArgument "etcdserver: request is too large",
    TooManyRequests: Unknown "etcdserver: too many requests",
    RootUserNotExist: FailedPrecondition "etcdserver: root user does not exist",
    RootRoleNotExist: FailedPrecondition "etcdserver: root user does not have root role",
    UserAlreadyExist: FailedPrecondition "etcdserver: user name already exists",
    UserEmpty: InvalidArgument "etcdserver: user name is empty",
    UserNotFound: FailedPrecondition "etcdserver: user name not found",
    RoleAlreadyExist: FailedPrecondition "etcdserver: role name already exists",
    RoleNotFound: FailedPrecondition "etcdserver: role name not found",
    RoleEmpty: InvalidArgument "etcdserver: role name is empty",
    AuthFailed: InvalidArgument "etcdserver: authentication failed, invalid user ID or password",
    PermissionNotGiven: InvalidArgument "etcdserver: permission not given",
    PermissionDenied: PermissionDenied "etcdserver: permission denied",
    RoleNotGranted: FailedPrecondition "etcdserver: role is not granted to the user",
    PermissionNotGranted: FailedPrecondition "etcdserver: permission is not granted to the role",
    AuthNotEnabled: FailedPrecondition "etcdserver: authentication is not enabled",
    InvalidAuthToken: Unauthenticated "etcdserver: invalid auth token",
    InvalidAuthMgmt: InvalidArgument "etcdserver: invalid auth management",
    AuthOldRevision: InvalidArgument "etcdserver: revision of auth store is old",
    NoLeader: Unavailable "etcdserver: no leader",
    NotLeader: FailedPrecondition "etcdserver: not leader",
    LeaderChanged: Unavailable "etcdserver: leader changed",
    NotCapable: FailedPrecondition "etcdserver: not capable",
    Stopped: Unavailable "etcdserver: server stopped",
    Timeout: Unavailable "etcdserver: request timed out",
    TimeoutDueToLeaderFail: Unavailable "etcdserver: request timed out, possibly due to previous leader failure",
    TimeoutDueToConnectionLost: Unavailable "etcdserver: request timed out, possibly due to connection lost",
    TimeoutWaitAppliedIndex: Unavailable "etcdserver: request timed out, waiting for the applied index took too long",
    Unhealthy: Unavailable "etcdserver: unhealthy cluster",
    Corrupt: DataLoss "etcdserver: corrupt cluster",
    NotSupportedForLearner: FailedPrecondition "etcdserver: rpc not supported for learner",
    BadLeaderTransferee: FailedPrecondition "etcdserver: bad leader transferee",
    WrongDowngradeVersionFormat: InvalidArgument "etcdserver: wrong downgrade target version format",
    InvalidDowngradeTargetVersion: InvalidArgument "etcdserver: invalid downgrade target version",
    ClusterVersionUnavailable: FailedPrecondition "etcdserver: cluster version not found during downgrade",
    DowngradeInProcess: FailedPrecondition "etcdserver: cluster has a downgrade job in progress",
    NoInflightDowngrade: FailedPrecondition "etcdserver: no inflight downgrade job",
    Canceled: Canceled "etcdserver: request canceled",
    DeadlineExceeded: DeadlineExceeded "etcdserver: context deadline exceeded",
}

impl From<Canonical> for Status {
    fn from(error: Canonical) -> Status {
        Status::new(error.code(), error.text())
    }
}

/// The error of a handler: the status that its client receives.
///
/// A type of our own, so that `?` converts the errors of all layers below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError(pub Status);

impl CallError {
    /// Creates an error without a row in the table.
    pub(crate) fn new(code: Code, text: impl Into<std::borrow::Cow<'static, str>>) -> CallError {
        CallError(Status::new(code, text))
    }

    /// Creates an error without a specific code from the text of another.
    pub(crate) fn unknown(error: &dyn std::fmt::Display) -> CallError {
        CallError(Status::unknown(error))
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> CallError {
        CallError(status)
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Status {
        error.0
    }
}

impl From<Canonical> for CallError {
    fn from(error: Canonical) -> CallError {
        CallError(error.into())
    }
}

impl From<server::Error> for CallError {
    fn from(error: server::Error) -> CallError {
        use server::Error as E;
        let known = match &error {
            E::Refused(refusal) => return refusal.into(),
            E::Members(refused) => refused.into(),
            E::Unsafe(refused) => refused.into(),
            E::Downgrade(refused) => refused.into(),
            E::Renew(lease::RenewError::NotFound) => Canonical::LeaseNotFound,
            E::RequestTooLarge => Canonical::RequestTooLarge,
            E::TooManyRequests => Canonical::TooManyRequests,
            E::Timeout => Canonical::Timeout,
            E::TimeoutLeaderFail => Canonical::TimeoutDueToLeaderFail,
            E::TimeoutConnectionLost => Canonical::TimeoutDueToConnectionLost,
            E::TimeoutWaitAppliedIndex => Canonical::TimeoutWaitAppliedIndex,
            E::DeadlineExceeded => return CallError(Status::DEADLINE_EXCEEDED),
            E::NoPeers => return CallError::new(Code::Unimplemented, error.to_string()),
            E::LeaderChanged => Canonical::LeaderChanged,
            E::NoLeader => Canonical::NoLeader,
            E::NotLeader => Canonical::NotLeader,
            E::BadLeaderTransferee => Canonical::BadLeaderTransferee,
            E::Stopped => Canonical::Stopped,
            E::Renew(lease::RenewError::NotPrimary)
            | E::Hash(_)
            | E::TimeoutLeaderTransfer
            | E::ProposalDropped
            | E::UnknownMethod
            | E::ReplyMismatch
            | E::Fault(_) => return CallError::unknown(&error),
        };
        known.into()
    }
}

impl From<&server::Refusal> for CallError {
    fn from(refusal: &server::Refusal) -> CallError {
        use lease::{GrantError as G, RevokeError as R};
        use server::Refusal;
        let known = match refusal {
            Refusal::Keys(error) => return error.into(),
            Refusal::Auth(error) => return error.into(),
            Refusal::Grant(G::Exists) => Canonical::LeaseExist,
            Refusal::Grant(G::TtlTooLarge) => Canonical::LeaseTTLTooLarge,
            Refusal::Grant(G::NotFound) | Refusal::Revoke(R::NotFound) => Canonical::LeaseNotFound,
            Refusal::NoSpace => Canonical::NoSpace,
            Refusal::Corrupt => Canonical::Corrupt,
        };
        known.into()
    }
}

impl From<&mvcc::Error> for CallError {
    fn from(error: &mvcc::Error) -> CallError {
        use mvcc::Error as E;
        let known = match error {
            E::Compacted => Canonical::Compacted,
            E::FutureRevision => Canonical::FutureRev,
            E::LeaseNotFound => Canonical::LeaseNotFound,
            E::KeyNotFound => Canonical::KeyNotFound,
            E::Fault(fault) => return CallError::unknown(fault),
        };
        known.into()
    }
}

impl From<InvalidRequest> for CallError {
    fn from(refused: InvalidRequest) -> CallError {
        use InvalidRequest as R;
        let known = match refused {
            R::EmptyKey => Canonical::EmptyKey,
            R::EmptyOp => Canonical::KeyNotFound,
            R::ValueProvided => Canonical::ValueProvided,
            R::LeaseProvided => Canonical::LeaseProvided,
            R::TooManyOps => Canonical::TooManyOps,
            R::DuplicateKey => Canonical::DuplicateKey,
            R::InvalidSortOption => Canonical::InvalidSortOption,
            R::StreamOrder | R::StreamFilters => {
                return CallError::new(Code::Unimplemented, refused.to_string());
            }
        };
        known.into()
    }
}

impl From<&auth::Error> for CallError {
    fn from(error: &auth::Error) -> CallError {
        use auth::Error as E;
        let known = match error {
            E::RootUserNotExist => Canonical::RootUserNotExist,
            E::RootRoleNotExist => Canonical::RootRoleNotExist,
            E::UserAlreadyExist => Canonical::UserAlreadyExist,
            E::UserEmpty => Canonical::UserEmpty,
            E::UserNotFound => Canonical::UserNotFound,
            E::RoleAlreadyExist => Canonical::RoleAlreadyExist,
            E::RoleNotFound => Canonical::RoleNotFound,
            E::RoleEmpty => Canonical::RoleEmpty,
            E::PermissionNotGiven => Canonical::PermissionNotGiven,
            E::AuthFailed => Canonical::AuthFailed,
            E::PermissionDenied => Canonical::PermissionDenied,
            E::RoleNotGranted => Canonical::RoleNotGranted,
            E::PermissionNotGranted => Canonical::PermissionNotGranted,
            E::AuthNotEnabled => Canonical::AuthNotEnabled,
            E::AuthOldRevision => Canonical::AuthOldRevision,
            E::InvalidAuthToken => Canonical::InvalidAuthToken,
            E::InvalidAuthMgmt => Canonical::InvalidAuthMgmt,
            E::NoPasswordUser | E::VerifyOnly | E::Signing | E::NameTooLong => {
                return CallError::unknown(error);
            }
        };
        known.into()
    }
}

impl From<&membership::ConfChangeRefusal> for Canonical {
    fn from(refused: &membership::ConfChangeRefusal) -> Canonical {
        use membership::ConfChangeRefusal as R;
        match refused {
            R::IdRemoved | R::IdNotFound => Canonical::MemberNotFound,
            R::IdExists => Canonical::MemberExist,
            R::PeerUrlExists => Canonical::PeerURLExist,
            R::MemberNotLearner => Canonical::MemberNotLearner,
            R::TooManyLearners => Canonical::TooManyLearners,
        }
    }
}

impl From<&membership::reconfig::UnsafeReconfig> for Canonical {
    fn from(refused: &membership::reconfig::UnsafeReconfig) -> Canonical {
        use membership::reconfig::UnsafeReconfig;
        match refused {
            UnsafeReconfig::NotEnoughStarted => Canonical::MemberNotEnoughStarted,
            UnsafeReconfig::Unhealthy => Canonical::Unhealthy,
            UnsafeReconfig::LearnerNotReady => Canonical::LearnerNotReady,
        }
    }
}

impl From<&membership::version::DowngradeError> for Canonical {
    fn from(error: &membership::version::DowngradeError) -> Canonical {
        use membership::version::DowngradeError as D;
        match error {
            D::WrongFormat => Canonical::WrongDowngradeVersionFormat,
            D::ClusterVersionUnavailable => Canonical::ClusterVersionUnavailable,
            D::InvalidTarget => Canonical::InvalidDowngradeTargetVersion,
            D::InProcess => Canonical::DowngradeInProcess,
            D::NoneInflight => Canonical::NoInflightDowngrade,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generated from etcd's source.
    const TABLE: &str = include_str!("../testdata/errors");

    #[test]
    fn the_table_equals_that_of_etcd() {
        let ours = Canonical::ALL.iter().map(|error| {
            format!("{:<30}{:<20}{}", error.symbol(), error.code().name(), error.text())
        });
        assert_eq!(ours.collect::<Vec<_>>(), TABLE.lines().collect::<Vec<_>>());
    }

    fn status_of(error: server::Error) -> (Code, String) {
        let Status { code, message } = CallError::from(error).0;
        (code, message.into_owned())
    }

    #[test]
    fn refusals_of_all_layers_map_to_their_row() {
        use server::{Error, Refusal};
        let keys = |error| Error::Refused(Refusal::Keys(error));
        let cases = [
            (keys(mvcc::Error::Compacted), Canonical::Compacted),
            (keys(mvcc::Error::LeaseNotFound), Canonical::LeaseNotFound),
            (Error::Refused(Refusal::NoSpace), Canonical::NoSpace),
            (auth::Error::AuthOldRevision.into(), Canonical::AuthOldRevision),
            (membership::ConfChangeRefusal::IdRemoved.into(), Canonical::MemberNotFound),
            (membership::reconfig::UnsafeReconfig::Unhealthy.into(), Canonical::Unhealthy),
            (lease::RenewError::NotFound.into(), Canonical::LeaseNotFound),
            (Error::Timeout, Canonical::Timeout),
        ];
        for (error, row) in cases {
            assert_eq!(CallError::from(error), CallError::from(row));
        }
    }

    #[test]
    fn an_error_without_a_row_keeps_its_text() {
        let unknown = |text: &str| (Code::Unknown, text.to_owned());
        assert_eq!(status_of(server::Error::ProposalDropped), unknown("raft proposal dropped"));
        assert_eq!(
            status_of(server::Error::ReplyMismatch),
            unknown("the request id was used twice; the outcome of this request is unknown")
        );
        assert_eq!(
            status_of(lease::RenewError::NotPrimary.into()),
            unknown("not a primary lessor")
        );
        assert_eq!(
            status_of(auth::Error::NoPasswordUser.into()),
            unknown("auth: authentication failed, password was given for no password user")
        );
    }

    #[test]
    fn two_rows_are_sent_as_unknown() {
        let not_enough = membership::reconfig::UnsafeReconfig::NotEnoughStarted.into();
        assert_eq!(status_of(not_enough).0, Code::Unknown);
        assert_eq!(status_of(server::Error::TooManyRequests).0, Code::Unknown);
    }
}
