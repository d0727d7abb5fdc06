//! Authentication of clients.
//!
//! ```text
//!   authentication   token      certificate   --client-cert-auth   user
//!   off              any        -             any                  none
//!   on               fbCZ….41   any           any                  the token's, once entry 41
//!                                                                  is applied here
//!   on               -          alice         yes                  alice
//!   on               -          alice         no                   none
//! ```
//!
//! While authentication is off, the name of a certificate goes into the log too, and is not
//! checked.

use std::sync::Arc;

use auth::AuthInfo;

use crate::error::Error;
use crate::propose::stage_timings::StageTimings;
use crate::server::Server;

/// The credentials of a request, and where to record its stage timings.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The token of the request.
    pub token: Option<String>,
    /// The common name of the client's verified certificate.
    pub common_name: Option<String>,
    /// Records when the request passes each stage, if it is traced.
    pub timings: Option<Arc<StageTimings>>,
}

impl Server {
    /// Returns the user of a request, if it has one.
    ///
    /// A member knows a token only after it has applied the entry that assigned it, so this waits
    /// for that entry.
    ///
    /// # Errors
    /// The token is invalid.
    pub async fn auth_info(&self, credentials: &Credentials) -> Result<Option<AuthInfo>, Error> {
        match &credentials.token {
            Some(token) if self.state().auth.enabled() => self.user_of_token(token).await.map(Some),
            _ => Ok(self.user_of_certificate(credentials)),
        }
    }

    async fn user_of_token(&self, token: &str) -> Result<AuthInfo, Error> {
        if let Some(index) = self.state().auth.index_of_token(token)?
            && !self.wait_applied_until(index, self.deadline()).await?
        {
            return Err(auth::Error::InvalidAuthToken.into());
        }
        Ok(self.state().auth.info_from_token(token)?)
    }

    fn user_of_certificate(&self, credentials: &Credentials) -> Option<AuthInfo> {
        let name = credentials.common_name.as_ref().filter(|_| self.config().client_cert_auth)?;
        Some(self.state().auth.info_from_common_name(name))
    }

    /// Checks that the user holds the role root, if authentication is enabled.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub async fn check_admin(&self, credentials: &Credentials) -> Result<(), Error> {
        let caller = self.auth_info(credentials).await?;
        Ok(self.state().auth.check_admin(caller.as_ref())?)
    }

    /// Checks for the role root again after catching up, in case it was just granted.
    pub(super) async fn check_admin_linearizable(
        &self,
        credentials: &Credentials,
    ) -> Result<(), Error> {
        if self.check_admin(credentials).await.is_ok() {
            return Ok(());
        }
        self.linearizable().await?;
        self.check_admin(credentials).await
    }

    /// Checks that the request has a user, if authentication is enabled.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub async fn check_any_user(&self, credentials: &Credentials) -> Result<(), Error> {
        let caller = self.auth_info(credentials).await?;
        Ok(self.state().auth.check_any_user(caller.as_ref())?)
    }
}
