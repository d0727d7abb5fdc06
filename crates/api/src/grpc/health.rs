//! `grpc.health.v1.Health`: gRPC's own question whether a server is well.
//!
//! There is one answer, for the service without a name, which is all of them together: a member serves from when it is asked, except, if the gate
//! `StopGRPCServiceOnDefrag` is on, while it defragments. (Then load balancers go elsewhere, though nobody here would have to wait.)

use std::collections::BTreeMap;

use http::Response;
use proto::health::health_check_response::ServingStatus;
use proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use tokio::sync::watch;

use super::call::{Call, Context, Replies};
use super::message::RequestBody;
use super::rpc::Health as Rpc;
use super::status::{Code, Status};
use crate::body::Body;

/// The name of all services together.
const ALL: &str = "";

pub(super) async fn serve<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Rpc::Check => call.unary(check).await,
        Rpc::List => call.unary(list).await,
        Rpc::Watch => call.server_stream(false, follow).await,
    }
}

async fn check(cx: Context, asked: HealthCheckRequest) -> Result<HealthCheckResponse, Status> {
    cx.shared().health.check(&asked.service)
}

async fn list(cx: Context, _: HealthListRequest) -> Result<HealthListResponse, Status> {
    Ok(cx.shared().health.list())
}

async fn follow(cx: Context, asked: HealthCheckRequest, replies: Replies) -> Result<(), Status> {
    let mut changes = cx.shared().health.watch(&asked.service);
    loop {
        replies.send(&changes.next().await).await?;
    }
}

/// Whether the member serves.
#[derive(Debug)]
pub(crate) struct Health {
    serving: watch::Sender<ServingStatus>,
    stops_on_defragment: bool,
}

impl Health {
    pub(crate) fn new(stops_on_defragment: bool) -> Health {
        let health = Health { serving: watch::Sender::default(), stops_on_defragment };
        health.starts();
        health
    }

    /// The status of a service.
    fn check(&self, service: &str) -> Result<HealthCheckResponse, Status> {
        match service {
            ALL => Ok(response(*self.serving.borrow())),
            _ => Err(Status::new(Code::NotFound, "unknown service")),
        }
    }

    /// The status of every service.
    fn list(&self) -> HealthListResponse {
        let all = (ALL.to_owned(), response(*self.serving.borrow()));
        HealthListResponse { statuses: BTreeMap::from([all]) }
    }

    /// Follows the status of a service.
    fn watch(&self, service: &str) -> Changes {
        let known = (service == ALL).then(|| self.serving.subscribe());
        Changes { known, told: None }
    }

    /// Says that the member does not serve as long as what is returned is held, if that is wanted of it.
    pub(super) fn defragments(&self) -> Defragments<'_> {
        if self.stops_on_defragment {
            tracing::warn!(
                service = ALL,
                status = "NOT_SERVING",
                reason = "defrag is active",
                "grpc service status changed"
            );
            self.serving.send_replace(ServingStatus::NotServing);
        }
        Defragments(self)
    }

    fn starts(&self) {
        tracing::info!(service = ALL, status = "SERVING", "grpc service status changed");
        self.serving.send_replace(ServingStatus::Serving);
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

/// The member is being defragmented.
#[derive(Debug)]
pub(super) struct Defragments<'a>(&'a Health);

impl Drop for Defragments<'_> {
    fn drop(&mut self) {
        self.0.starts();
    }
}

/// The status of a service, whenever it is another. Of those that are missed the last is told.
#[derive(Debug)]
struct Changes {
    known: Option<watch::Receiver<ServingStatus>>,
    told: Option<ServingStatus>,
}

impl Changes {
    /// The status if it is not the one that was told last; waits for that. A service that nobody knows is told of once, and may yet come.
    async fn next(&mut self) -> HealthCheckResponse {
        loop {
            let now = self.now();
            if self.told != Some(now) {
                self.told = Some(now);
                return response(now);
            }
            self.changed().await;
        }
    }

    fn now(&mut self) -> ServingStatus {
        match &mut self.known {
            Some(serving) => *serving.borrow_and_update(),
            None => ServingStatus::ServiceUnknown,
        }
    }

    async fn changed(&mut self) {
        if let Some(serving) = &mut self.known
            && serving.changed().await.is_ok()
        {
            return;
        }
        // Nothing will ever change: whoever asked ends this.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watcher_is_told_of_every_other_status() {
        let health = Health::new(true);
        let mut changes = health.watch("");
        assert_eq!(changes.next().await, response(ServingStatus::Serving));
        let defragments = health.defragments();
        assert_eq!(changes.next().await, response(ServingStatus::NotServing));
        assert_eq!(health.check("").unwrap(), response(ServingStatus::NotServing));
        drop(defragments);
        assert_eq!(changes.next().await, response(ServingStatus::Serving));
        // What comes back to what was told is not told.
        drop(health.defragments());
        assert!(tokio_test_pending(changes.next()));
    }

    /// Whether a future has to wait.
    fn tokio_test_pending(future: impl Future) -> bool {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut context).is_pending()
    }

    #[tokio::test]
    async fn services_are_not_known_one_by_one() {
        let health = Health::new(false);
        let refused = health.check("etcdserverpb.KV").unwrap_err();
        assert_eq!((refused.code, &*refused.message), (Code::NotFound, "unknown service"));
        let mut changes = health.watch("etcdserverpb.KV");
        assert_eq!(changes.next().await, response(ServingStatus::ServiceUnknown));
        assert!(tokio_test_pending(changes.next()));
        let all = BTreeMap::from([(String::new(), response(ServingStatus::Serving))]);
        assert_eq!(health.list().statuses, all);
    }

    #[test]
    fn defragmenting_stops_nothing_unless_it_is_to() {
        let health = Health::new(false);
        let _defragments = health.defragments();
        assert_eq!(health.check("").unwrap(), response(ServingStatus::Serving));
    }
}
