//! `grpc.health.v1.Health`: gRPC's standard health service.
//!
//! There is one status, for the service without a name, which stands for all services. It is
//! `SERVING`, except while the member defragments with the feature gate `StopGRPCServiceOnDefrag`
//! on. (Load balancers then avoid the member, although its requests would not have to wait.)

use std::collections::BTreeMap;

use grpc::{Code, RequestBody};
use proto::health::health_check_response::ServingStatus;
use proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use tokio::sync::watch;

use crate::body::GrpcResponse;
use crate::context::{Call, Context, Replies};
use crate::errors::CallError;
use crate::interceptor;
use crate::methods::Health as Rpc;

/// The name that stands for all services.
const ALL: &str = "";

pub(super) fn serve<B: RequestBody>(rpc: Rpc, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Rpc::Check => call.unary(interceptor::unary, check),
        Rpc::List => call.unary(interceptor::unary, list),
        Rpc::Watch => call.server_stream(interceptor::stream, watch_status),
    }
}

async fn check(cx: Context, request: HealthCheckRequest) -> Result<HealthCheckResponse, CallError> {
    cx.shared().health.check(&request.service)
}

async fn list(cx: Context, _: HealthListRequest) -> Result<HealthListResponse, CallError> {
    Ok(cx.shared().health.list())
}

async fn watch_status(
    cx: Context,
    request: HealthCheckRequest,
    replies: Replies,
) -> Result<(), CallError> {
    let mut changes = cx.shared().health.watch(&request.service);
    loop {
        replies.send(&changes.next().await).await?;
    }
}

/// The serving status of the member.
#[derive(Debug)]
pub(crate) struct Health {
    serving: watch::Sender<ServingStatus>,
    stops_on_defragment: bool,
}

impl Health {
    pub(crate) fn new(stops_on_defragment: bool) -> Health {
        let health = Health { serving: watch::Sender::default(), stops_on_defragment };
        health.set_serving();
        health
    }

    /// Returns the status of a service.
    fn check(&self, service: &str) -> Result<HealthCheckResponse, CallError> {
        match service {
            ALL => Ok(response(*self.serving.borrow())),
            _ => Err(CallError::new(Code::NotFound, "unknown service")),
        }
    }

    /// Returns the status of every service.
    fn list(&self) -> HealthListResponse {
        let all = (ALL.to_owned(), response(*self.serving.borrow()));
        HealthListResponse { statuses: BTreeMap::from([all]) }
    }

    /// Watches the status of a service.
    fn watch(&self, service: &str) -> StatusChanges {
        let known = (service == ALL).then(|| self.serving.subscribe());
        StatusChanges { known, last: None }
    }

    /// Reports `NOT_SERVING` until the guard is dropped, if so configured.
    pub(super) fn defragmenting(&self) -> DefragmentGuard<'_> {
        if self.stops_on_defragment {
            tracing::warn!(
                service = ALL,
                status = "NOT_SERVING",
                reason = "defrag is active",
                "grpc service status changed"
            );
            self.serving.send_replace(ServingStatus::NotServing);
        }
        DefragmentGuard(self)
    }

    fn set_serving(&self) {
        tracing::info!(service = ALL, status = "SERVING", "grpc service status changed");
        self.serving.send_replace(ServingStatus::Serving);
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

/// Marks the time during which the member defragments.
#[derive(Debug)]
pub(super) struct DefragmentGuard<'a>(&'a Health);

impl Drop for DefragmentGuard<'_> {
    fn drop(&mut self) {
        self.0.set_serving();
    }
}

/// The changes of a service's status. A slow reader sees only the latest.
#[derive(Debug)]
struct StatusChanges {
    known: Option<watch::Receiver<ServingStatus>>,
    last: Option<ServingStatus>,
}

impl StatusChanges {
    /// Waits until the status differs from the last one. An unknown service is reported once, and
    /// then the stream stays open.
    async fn next(&mut self) -> HealthCheckResponse {
        loop {
            let now = self.now();
            if self.last != Some(now) {
                self.last = Some(now);
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
        // The status will never change: the client has to end the stream.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watcher_receives_each_change_of_the_status() {
        let health = Health::new(true);
        let mut changes = health.watch("");
        assert_eq!(changes.next().await, response(ServingStatus::Serving));
        let defragmenting = health.defragmenting();
        assert_eq!(changes.next().await, response(ServingStatus::NotServing));
        assert_eq!(health.check("").unwrap(), response(ServingStatus::NotServing));
        drop(defragmenting);
        assert_eq!(changes.next().await, response(ServingStatus::Serving));
        // A change back to the last status before it is read is not reported.
        drop(health.defragmenting());
        assert!(is_pending(changes.next()));
    }

    /// Polls a future once.
    fn is_pending(future: impl Future) -> bool {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut context).is_pending()
    }

    #[tokio::test]
    async fn individual_services_are_unknown() {
        let health = Health::new(false);
        let refused = health.check("etcdserverpb.KV").unwrap_err();
        let refused = refused.0;
        assert_eq!((refused.code, &*refused.message), (Code::NotFound, "unknown service"));
        let mut changes = health.watch("etcdserverpb.KV");
        assert_eq!(changes.next().await, response(ServingStatus::ServiceUnknown));
        assert!(is_pending(changes.next()));
        let all = BTreeMap::from([(String::new(), response(ServingStatus::Serving))]);
        assert_eq!(health.list().statuses, all);
    }

    #[test]
    fn defragmenting_does_not_change_the_status_by_default() {
        let health = Health::new(false);
        let _guard = health.defragmenting();
        assert_eq!(health.check("").unwrap(), response(ServingStatus::Serving));
    }
}
