//! Going one version down: asked about, begun, called off. Carrying it out is a chore of the leader.

use membership::version::{self, DowngradeError};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::downgrade_request::DowngradeAction;
use proto::membershippb::DowngradeInfoSetRequest;

use super::Credentials;
use crate::error::Error;
use crate::server::Server;

impl Server {
    /// Asks about a downgrade, begins one, or calls it off. Answers with the version that the cluster speaks.
    pub async fn downgrade(
        &self,
        who: &Credentials,
        r: pb::DowngradeRequest,
    ) -> Result<pb::DowngradeResponse, Error> {
        self.check_admin(who).await?;
        let version = match DowngradeAction::try_from(r.action) {
            Ok(DowngradeAction::Validate) => self.downgrade_validate(&r.version).await?,
            Ok(DowngradeAction::Enable) => self.downgrade_enable(who, &r.version).await?,
            Ok(DowngradeAction::Cancel) => self.downgrade_cancel(who).await,
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

    async fn downgrade_enable(&self, who: &Credentials, target: &str) -> Result<String, Error> {
        let enabled = async {
            let target = version::downgrade_target(target)?;
            self.check_downgrade(target).await?;
            self.set_downgrade(who, true, target.to_string()).await
        };
        enabled.await.inspect_err(|error| tracing::warn!(%error, "reject downgrade request"))?;
        Ok(self.spoken_version())
    }

    /// Compat: as in etcd, that there is nothing to call off, or that it did not work, is for the log alone.
    async fn downgrade_cancel(&self, who: &Credentials) -> String {
        let cancelled = async {
            self.linearizable().await?;
            version::check_cancel(self.state().cluster.now().downgrade())?;
            self.set_downgrade(who, false, String::new()).await
        };
        if let Err(error) = cancelled.await {
            tracing::warn!(%error, "failed to cancel downgrade");
        }
        self.spoken_version()
    }

    /// With whatever was decided by now: another downgrade may have just begun.
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
        who: &Credentials,
        enabled: bool,
        ver: String,
    ) -> Result<(), Error> {
        self.log_for_reply(who, DowngradeInfoSetRequest { enabled, ver }).await
    }

    fn spoken_version(&self) -> String {
        self.state().cluster.now().version().map(version::short).unwrap_or_default()
    }
}
