//! Who asks.

use proto::etcdserverpb::RequestHeader;

/// Who asks, and what users and roles were like when that was found out.
///
/// The revision goes with a request through the log: if users or roles have changed by the time it is applied, it is refused and has to
/// be authenticated again. Revision zero is nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthInfo {
    /// The name of the user; empty for nobody.
    pub username: String,
    /// The revision of users and roles.
    pub revision: u64,
}

impl AuthInfo {
    /// Who asks in a request that came through the log. One without a header, or whose header names nobody, is nobody's.
    #[must_use]
    pub fn from_header(header: Option<&RequestHeader>) -> AuthInfo {
        header.map_or_else(AuthInfo::default, |header| AuthInfo {
            username: header.username.clone(),
            revision: header.auth_revision,
        })
    }

    /// Puts it into the header of a request that goes through the log.
    pub fn write_to(&self, header: &mut RequestHeader) {
        header.username.clone_from(&self.username);
        header.auth_revision = self.revision;
    }
}
