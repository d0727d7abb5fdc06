//! Downgrades: validated, begun, canceled. A background task of the leader carries them out.

use membership::version::{self, DowngradeError};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::downgrade_request::DowngradeAction;
use proto::membershippb::DowngradeInfoSetRequest;

use super::Credentials;
use crate::error::Error;
use crate::server::Server;

impl Server {
    /// Validates, begins or cancels a downgrade. Returns the cluster version.
    pub async fn downgrade(
        &self,
        credentials: &Credentials,
        r: pb::DowngradeRequest,
    ) -> Result<pb::DowngradeResponse, Error> {
        self.check_admin(credentials).await?;
        let version = match DowngradeAction::try_from(r.action) {
            Ok(DowngradeAction::Validate) => self.downgrade_validate(&r.version).await?,
            Ok(DowngradeAction::Enable) => self.downgrade_enable(credentials, &r.version).await?,
            Ok(DowngradeAction::Cancel) => self.downgrade_cancel(credentials).await,
            Err(_) => return Err(Error::UnknownMethod),
        };
        Ok(pb::DowngradeResponse { header: Some(self.header_now()), version })
    }

    async fn downgrade_validate(&self, target: &str) -> Result<String, Error> {
        let target = version::downgrade_target(target)?;
        let cluster = self.state().cluster.now().version();
        let cluster = cluster.ok_or(DowngradeError::ClusterVersionUnavailable)?;
        self.check_downgrade(target).await?;
        Ok(version::short(cluster))
    }

    async fn downgrade_enable(
        &self,
        credentials: &Credentials,
        target: &str,
    ) -> Result<String, Error> {
        let enabled = async {
            let target = version::downgrade_target(target)?;
            self.check_downgrade(target).await?;
            self.set_downgrade(credentials, true, target.to_string()).await
        };
        enabled.await.inspect_err(|error| tracing::warn!(%error, "reject downgrade request"))?;
        Ok(self.cluster_version_text())
    }

    /// Compat: as in etcd, errors only go to the log.
    async fn downgrade_cancel(&self, credentials: &Credentials) -> String {
        let canceled = async {
            self.linearizable().await?;
            version::check_cancel(self.state().cluster.now().downgrade())?;
            self.set_downgrade(credentials, false, String::new()).await
        };
        if let Err(error) = canceled.await {
            tracing::warn!(%error, "failed to cancel downgrade");
        }
        self.cluster_version_text()
    }

    /// Checks against the current state: another downgrade may have just begun.
    async fn check_downgrade(
        &self,
        target: backend::schema::version::Version,
    ) -> Result<(), Error> {
        self.linearizable().await?;
        let now = self.state().cluster.now();
        Ok(version::check_downgrade(now.version(), now.downgrade(), target)?)
    }

    async fn set_downgrade(
        &self,
        credentials: &Credentials,
        enabled: bool,
        ver: String,
    ) -> Result<(), Error> {
        self.reply_for(credentials, DowngradeInfoSetRequest { enabled, ver }).await
    }

    fn cluster_version_text(&self) -> String {
        self.state().cluster.now().version().map(version::short).unwrap_or_default()
    }
}
