//! What can go wrong.

use std::io;

/// Why a request was refused. The same on every member, so it is the result of applying the request, not a fault. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Authentication cannot be enabled without the user `root`.
    #[error("auth: root user does not exist")]
    RootUserNotExist,
    /// Authentication cannot be enabled unless the user `root` holds the role `root`.
    #[error("auth: root user does not have root role")]
    RootRoleNotExist,
    /// A user to be added is there already.
    #[error("auth: user already exists")]
    UserAlreadyExist,
    /// A user without a name; or a request without a user, where one is needed.
    #[error("auth: user name is empty")]
    UserEmpty,
    /// No such user.
    #[error("auth: user not found")]
    UserNotFound,
    /// A role to be added is there already.
    #[error("auth: role already exists")]
    RoleAlreadyExist,
    /// No such role.
    #[error("auth: role not found")]
    RoleNotFound,
    /// A role without a name.
    #[error("auth: role name is empty")]
    RoleEmpty,
    /// A permission is to be granted, and none is given.
    #[error("auth: permission not given")]
    PermissionNotGiven,
    /// Unknown user or wrong password: which of them is not told.
    #[error("auth: authentication failed, invalid user ID or password")]
    AuthFailed,
    /// A password for a user that has none; or a hash of a password that is no base64.
    #[error("auth: authentication failed, password was given for no password user")]
    NoPasswordUser,
    /// The user may not do that.
    #[error("auth: permission denied")]
    PermissionDenied,
    /// A role to be revoked is not held.
    #[error("auth: role is not granted to the user")]
    RoleNotGranted,
    /// A permission to be revoked is not there.
    #[error("auth: permission is not granted to the role")]
    PermissionNotGranted,
    /// There is nobody to authenticate to.
    #[error("auth: authentication is not enabled")]
    AuthNotEnabled,
    /// Users or roles have changed since the request was authenticated.
    #[error("auth: revision in header is old")]
    AuthOldRevision,
    /// A token that is unknown, expired or not signed by us.
    #[error("auth: invalid auth token")]
    InvalidAuthToken,
    /// A change that would lock everybody out, or a permission over nothing.
    #[error("auth: invalid auth management")]
    InvalidAuthMgmt,
    /// This member checks tokens, and has no key to sign them with.
    #[error("auth: token signing attempted with verify-only key")]
    VerifyOnly,
    /// This member's key failed to sign a token. The text is that of etcd's token library.
    #[error("key is invalid")]
    Signing,
    /// A name that does not fit into the database. (etcd accepts the request and stops.)
    #[error("auth: name is longer than {} bytes", crate::NAME_BYTES_MAX)]
    NameTooLong,
}

/// Why tokens cannot be had as the options ask for. The texts are etcd's and its token library's.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// Options that are not of the form `type,name=value,...`, an unknown type, a method or duration that is none, an unreadable file.
    #[error("auth: invalid auth options")]
    Invalid(#[source] OptionsReason),
    /// Neither key, or no secret.
    #[error("auth: missing key data")]
    MissingKey,
    /// Two keys that are no pair.
    #[error("auth: public and private keys don't match")]
    KeyMismatch,
    /// `none`: nobody would have signed anything.
    #[error("unsupported signing method: *jwt.signingMethodNone")]
    UnsupportedMethod,
    /// A file that holds no PEM block.
    #[error("invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key")]
    NotPem,
    /// A PEM block that is no key, or not one of the kind that the method needs.
    #[error("key is not a valid {kind} {half} key: {reason}")]
    NotAKey {
        /// `RSA`, `ECDSA` or `Ed25519`.
        kind: &'static str,
        /// `private` or `public`.
        half: &'static str,
        /// What the cryptography library said.
        reason: String,
    },
}

/// What is wrong with options. Clients of etcd never saw it; its log did.
#[derive(Debug, thiserror::Error)]
pub enum OptionsReason {
    /// Not `name=value`.
    #[error("invalid token option {0:?}")]
    NotAPair(String),
    /// Given twice.
    #[error("token option {0:?} is given twice")]
    Twice(String),
    /// Neither `simple` nor `jwt`.
    #[error("unknown token type {0:?}")]
    UnknownType(String),
    /// Not a duration.
    #[error("time: invalid duration {0:?}")]
    Duration(String),
    /// A method that is not known, or none.
    #[error("auth: invalid auth signature method")]
    Method,
    /// A key file could not be read.
    #[error("read {file}")]
    File {
        /// Its name.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A key file that is far too long for a key.
    #[error("{file} is longer than {max} bytes")]
    TooLong {
        /// Its name.
        file: String,
        /// The bound.
        max: usize,
    },
}

/// Why a password has no hash.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// bcrypt would ignore what is past its 72nd byte. The text is that of etcd's library.
    #[error("bcrypt: password length exceeds 72 bytes")]
    TooLong,
    /// There was no salt to be had.
    #[error("random salt: {0}")]
    Random(#[from] io::Error),
}
