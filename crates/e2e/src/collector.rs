//! A collector of traces: it takes what members send over OTLP, and remembers it.

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

use crate::PATIENCE;

/// A collector on a port of its own. Inside a runtime only.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    arriving: mpsc::UnboundedReceiver<ResourceSpans>,
    arrived: Vec<Traced>,
}

/// A span, and whose it is.
#[derive(Clone, Debug)]
pub struct Traced {
    /// What the member says of itself.
    pub resource: Vec<(String, String)>,
    /// The span.
    pub span: Span,
}

impl Traced {
    /// What an attribute says, as a text.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.span.attributes.iter().find(|attribute| attribute.key == name).map(text)
    }

    /// The names of what happened meanwhile.
    pub fn events(&self) -> Vec<&str> {
        self.span.events.iter().map(|event| &*event.name).collect()
    }
}

impl Collector {
    /// Starts one.
    ///
    /// # Panics
    ///
    /// If there is no port to be had.
    pub async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (sender, arriving) = mpsc::unbounded_channel();
        let service = TraceServiceServer::new(Service { sender });
        let served = Server::builder().add_service(service);
        tokio::spawn(served.serve_with_incoming(TcpIncoming::from(listener)));
        Collector { address, arriving, arrived: Vec::new() }
    }

    /// Where it is.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The spans of a trace, once one of this name is among them. Those of a call come before the call itself.
    ///
    /// # Panics
    ///
    /// If it does not come.
    pub async fn trace(&mut self, trace: &str, name: &str) -> Vec<Traced> {
        let is_there = |all: &[Traced]| {
            all.iter().any(|one| one.span.name == name && hex(&one.span.trace_id) == trace)
        };
        while !is_there(&self.arrived) {
            let came = tokio::time::timeout(PATIENCE, self.arriving.recv()).await;
            let came = came.unwrap_or_else(|_| panic!("no {name} among {:#?}", self.arrived));
            self.arrived.extend(came.into_iter().flat_map(spans));
        }
        let all = self.arrived.iter().filter(|one| hex(&one.span.trace_id) == trace);
        all.cloned().collect()
    }

    /// The trace of each span that came so far.
    pub fn traces(&mut self) -> Vec<String> {
        self.take();
        self.arrived.iter().map(|one| hex(&one.span.trace_id)).collect()
    }

    /// The one span of a name among those that came so far.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub fn named(&mut self, name: &str) -> Traced {
        self.take();
        let found = self.arrived.iter().find(|one| one.span.name == name);
        found.unwrap_or_else(|| panic!("no {name} among {:#?}", self.arrived)).clone()
    }

    fn take(&mut self) {
        while let Ok(came) = self.arriving.try_recv() {
            self.arrived.extend(spans(came));
        }
    }
}

/// Bytes as texts have them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn spans(came: ResourceSpans) -> Vec<Traced> {
    let attributes = came.resource.map(|resource| resource.attributes).unwrap_or_default();
    let resource: Vec<_> =
        attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect();
    let spans = came.scope_spans.into_iter().flat_map(|scope| scope.spans);
    spans.map(|span| Traced { resource: resource.clone(), span }).collect()
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
            // Nobody looks any more.
            let _ = self.sender.send(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
