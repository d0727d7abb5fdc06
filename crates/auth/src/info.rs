//! The user of a request.

use proto::etcdserverpb::RequestHeader;

/// A user, and the auth revision at which the user was authenticated.
///
/// The revision goes through the log with the request. If users or roles have changed when the
/// request is applied, it is refused and has to be authenticated again. Revision zero stands for a
/// request without a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthInfo {
    /// The name of the user; empty without one.
    pub username: String,
    /// The auth revision.
    pub revision: u64,
}

impl AuthInfo {
    /// Reads the user from the header of a log entry.
    #[must_use]
    pub fn from_header(header: Option<&RequestHeader>) -> AuthInfo {
        header.map_or_else(AuthInfo::default, |header| AuthInfo {
            username: header.username.clone(),
            revision: header.auth_revision,
        })
    }

    /// Writes the user into the header of a request before it is proposed.
    pub fn write_to(&self, header: &mut RequestHeader) {
        header.username.clone_from(&self.username);
        header.auth_revision = self.revision;
    }
}
