//! Who asks.
//!
//! ```text
//!   authentication   token           certificate   --client-cert-auth   is
//!   off              any             -             any                  nobody, and nobody minds
//!   on               fbCZ….41        any           any                  whose token it is, once entry 41 is applied here
//!   on               -               alice         yes                  alice
//!   on               -               alice         no                   nobody
//! ```
//!
//! (A certificate counts while authentication is off, too: the name goes into the log, and nobody looks.)

use std::sync::Arc;

use auth::AuthInfo;

use crate::error::Error;
use crate::propose::stage_timings::Marks;
use crate::server::Server;

/// Who asks, as far as the connection tells; and what else is to be known of all that they ask for.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The token that came with the request.
    pub token: Option<String>,
    /// The name in the certificate of the client, if that was verified.
    pub common_name: Option<String>,
    /// Where the stages note when they get to it, if somebody wants to know.
    pub marks: Option<Arc<Marks>>,
}

impl Server {
    /// The user who asks; none if nobody says who they are, or nobody wants to know.
    ///
    /// A token can be known only once the entry is applied that made it: if that is late, it is waited for.
    ///
    /// # Errors
    /// A token that nobody has.
    pub async fn auth_info(&self, who: &Credentials) -> Result<Option<AuthInfo>, Error> {
        match &who.token {
            Some(token) if self.state().auth.enabled() => self.owner_of(token).await.map(Some),
            _ => Ok(self.named_by_certificate(who)),
        }
    }

    async fn owner_of(&self, token: &str) -> Result<AuthInfo, Error> {
        if let Some(index) = self.state().auth.index_of_token(token)?
            && !self.reaches(index, self.deadline()).await?
        {
            return Err(auth::Error::InvalidAuthToken.into());
        }
        Ok(self.state().auth.info_from_token(token)?)
    }

    fn named_by_certificate(&self, who: &Credentials) -> Option<AuthInfo> {
        let name = who.common_name.as_ref().filter(|_| self.config().client_cert_auth)?;
        Some(self.state().auth.info_from_common_name(name))
    }

    /// Whether whoever asks holds the role root, if users are asked for.
    ///
    /// # Errors
    /// Why not.
    pub async fn check_admin(&self, who: &Credentials) -> Result<(), Error> {
        let caller = self.auth_info(who).await?;
        Ok(self.state().auth.check_admin(caller.as_ref())?)
    }

    /// Likewise, of a user who may just have been given that role: if this member has not heard of it yet, it catches up first.
    pub(super) async fn check_admin_of_late(&self, who: &Credentials) -> Result<(), Error> {
        if self.check_admin(who).await.is_ok() {
            return Ok(());
        }
        self.linearizable().await?;
        self.check_admin(who).await
    }

    /// Whether whoever asks is any user at all, if users are asked for.
    ///
    /// # Errors
    /// Why not.
    pub async fn check_any_user(&self, who: &Credentials) -> Result<(), Error> {
        let caller = self.auth_info(who).await?;
        Ok(self.state().auth.check_any_user(caller.as_ref())?)
    }
}
