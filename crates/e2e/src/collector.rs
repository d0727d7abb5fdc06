//! An OTLP collector that keeps the spans members send.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::TIMEOUT;

/// A collector on its own port. Must be used in a runtime.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    incoming: mpsc::UnboundedReceiver<ResourceSpans>,
    received: Vec<CollectedSpan>,
}

/// A span with the resource that sent it.
#[derive(Clone, Debug)]
pub struct CollectedSpan {
    /// Resource attributes of the member.
    pub resource: Vec<(String, String)>,
    /// The span.
    pub span: Span,
}

impl CollectedSpan {
    /// Returns an attribute as text.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.span.attributes.iter().find(|attribute| attribute.key == name).map(text)
    }

    /// Returns the names of the span's events.
    pub fn events(&self) -> Vec<&str> {
        self.span.events.iter().map(|event| &*event.name).collect()
    }
}

impl Collector {
    /// Starts a collector.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind a free port");
        let address = listener.local_addr().expect("a bound address");
        let (sender, incoming) = mpsc::unbounded_channel();
        let service = TraceServiceServer::new(Service { sender });
        let served = Server::builder().add_service(service);
        tokio::spawn(served.serve_with_incoming(TcpIncoming::from(listener)));
        Collector { address, incoming, received: Vec::new() }
    }

    /// Returns the address as `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Waits until a span of this name is in the trace, and returns all spans of the trace. Child
    /// spans arrive before the span of the call.
    ///
    /// # Panics
    ///
    /// If it does not arrive in time.
    pub async fn trace(&mut self, trace: &str, name: &str) -> Vec<CollectedSpan> {
        let has_arrived = |all: &[CollectedSpan]| {
            all.iter().any(|one| one.span.name == name && hex(&one.span.trace_id) == trace)
        };
        while !has_arrived(&self.received) {
            let batch = tokio::time::timeout(TIMEOUT, self.incoming.recv()).await;
            let batch = batch.unwrap_or_else(|_| panic!("no {name} among {:#?}", self.received));
            self.received.extend(batch.into_iter().flat_map(spans));
        }
        let all = self.received.iter().filter(|one| hex(&one.span.trace_id) == trace);
        all.cloned().collect()
    }

    /// Returns the trace id of each span received so far.
    pub fn traces(&mut self) -> Vec<String> {
        self.take();
        self.received.iter().map(|one| hex(&one.span.trace_id)).collect()
    }

    /// Returns the span of this name among those received so far.
    ///
    /// # Panics
    ///
    /// If there is no such span.
    #[track_caller]
    pub fn named(&mut self, name: &str) -> CollectedSpan {
        self.take();
        let found = self.received.iter().find(|one| one.span.name == name);
        found.unwrap_or_else(|| panic!("no {name} among {:#?}", self.received)).clone()
    }

    fn take(&mut self) {
        while let Ok(batch) = self.incoming.try_recv() {
            self.received.extend(spans(batch));
        }
    }
}

/// Formats bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn spans(batch: ResourceSpans) -> Vec<CollectedSpan> {
    let attributes = batch.resource.map(|resource| resource.attributes).unwrap_or_default();
    let resource: Vec<_> =
        attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect();
    let spans = batch.scope_spans.into_iter().flat_map(|scope| scope.spans);
    spans.map(|span| CollectedSpan { resource: resource.clone(), span }).collect()
}

fn text(attribute: &KeyValue) -> String {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => format!("{other:?}"),
    }
}

#[derive(Debug)]
struct Service {
    sender: mpsc::UnboundedSender<ResourceSpans>,
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for spans in request.into_inner().resource_spans {
            // The test has dropped the collector.
            let _ = self.sender.send(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
