//! Sends spans to a collector.
//!
//! ```text
//!   calls ─► queue of 2048 ─► thread `trace`: batches of 512, or after 5 seconds ─► OTLP
//!              │ full                                                               │ fails
//!              └─► dropped{reason="queue_full"}        dropped{reason="export_failed"} ◄┘
//! ```
//!
//! The environment can change these numbers ([`crate::batch`]). An export is retried three times,
//! in all within the export timeout. The thread has its own runtime: neither encoding nor waiting
//! for a collector delays requests.

use std::io;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::batch::BatchSettings;
use crate::{Settings, StartError};

/// The interval of log lines about failures.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The queue of spans to send.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    spans: mpsc::Sender<SpanData>,
    full: IntCounter,
}

impl Queue {
    /// Queues a span, or drops it if the queue is full.
    pub(crate) fn push(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.full.inc();
        }
    }
}

/// The exporter thread.
#[derive(Debug)]
pub struct Export {
    stop: oneshot::Sender<()>,
    stopped: std_mpsc::Receiver<()>,
}

impl Export {
    /// Sends the queued spans and stops. Returns after at most `time_limit`.
    pub fn close(self, time_limit: Duration) {
        // Fails if the thread has ended.
        let _ = self.stop.send(());
        if self.stopped.recv_timeout(time_limit) == Err(std_mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("timed out sending the last spans");
        }
    }
}

/// Starts the exporter thread.
pub(crate) fn start(
    settings: &Settings,
    registry: &Registry,
) -> Result<(Queue, Export), StartError> {
    let batches = BatchSettings::from_environment()?;
    let dropped = dropped(registry)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exporter = runtime.block_on(async { exporter(settings) })?;
    let (queue, spans) = channel(batches.queue_spans_max, &dropped);
    let failed = dropped.with_label_values(&["export_failed"]);
    let sender = Sender { spans, exporter, batches, failures: Failures::new(failed) };
    let (stop, stopping) = oneshot::channel();
    let (done, stopped) = std_mpsc::channel();
    spawn(move || {
        runtime.block_on(sender.run(stopping));
        // The caller may have given up.
        let _ = done.send(());
    })?;
    Ok((queue, Export { stop, stopped }))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("trace".to_owned()).spawn(work).map(drop)
}

fn channel(spans_max: usize, dropped: &IntCounterVec) -> (Queue, mpsc::Receiver<SpanData>) {
    let (sender, receiver) = mpsc::channel(spans_max);
    let full = dropped.with_label_values(&["queue_full"]);
    (Queue { spans: sender, full }, receiver)
}

fn dropped(registry: &Registry) -> Result<IntCounterVec, prometheus::Error> {
    let help = "Spans that were not sent, because the queue was full or the export failed.";
    let opts = Opts::new("bowline_trace_spans_dropped_total", help);
    let dropped = IntCounterVec::new(opts, &["reason"])?;
    registry.register(Box::new(dropped.clone()))?;
    Ok(dropped)
}

/// Compat: as in etcd, there is no encryption, and the flags override the resource of the
/// environment.
fn exporter(settings: &Settings) -> Result<OtlpExporter, StartError> {
    let endpoint = format!("http://{}", settings.address);
    let mut exporter = OtlpExporter::builder().with_tonic().with_endpoint(endpoint).build()?;
    let id = settings.instance_id.clone().map(|id| KeyValue::new("service.instance.id", id));
    let resource = Resource::builder_empty()
        .with_detector(Box::new(EnvResourceDetector::new()))
        .with_attribute(KeyValue::new("service.name", settings.service_name.clone()))
        .with_attributes(id);
    exporter.set_resource(&resource.build());
    Ok(exporter)
}

/// Sends batches of spans.
struct Sender<E> {
    spans: mpsc::Receiver<SpanData>,
    exporter: E,
    batches: BatchSettings,
    failures: Failures,
}

impl<E: SpanExporter> Sender<E> {
    async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                // Dropping the sender also stops it.
                _ = &mut stop => break,
                () = collect_batch(&mut self.spans, &mut batch, &self.batches) => self.send(&mut batch).await,
            }
        }
        self.spans.close();
        let spans_max = self.batches.batch_spans_max;
        while !batch.is_empty() || self.spans.recv_many(&mut batch, spans_max).await > 0 {
            self.send(&mut batch).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<SpanData>) {
        let count = batch.len();
        let export = self.exporter.export(std::mem::take(batch));
        let sent = match self.batches.export_timeout {
            None => export.await,
            Some(limit) => {
                timeout(limit, export).await.unwrap_or(Err(OTelSdkError::Timeout(limit)))
            }
        };
        self.failures.record(&sent, count);
    }
}

/// Waits for a full batch, or until its first span has waited long enough. Cancel-safe: the spans
/// stay in `batch`.
async fn collect_batch(
    spans: &mut mpsc::Receiver<SpanData>,
    batch: &mut Vec<SpanData>,
    batches: &BatchSettings,
) {
    if batch.is_empty() {
        match spans.recv().await {
            Some(first) => batch.push(first),
            // All tracers are dropped; only a stop can follow.
            None => std::future::pending().await,
        }
    }
    let until = Instant::now() + batches.delay;
    while batch.len() < batches.batch_spans_max
        && let Ok(Some(next)) = timeout_at(until, spans.recv()).await
    {
        batch.push(next);
    }
}

/// Counts spans that could not be sent, and limits the log lines about them.
struct Failures {
    dropped: IntCounter,
    last_logged: Option<Instant>,
    is_failing: bool,
}

impl Failures {
    fn new(dropped: IntCounter) -> Failures {
        Failures { dropped, last_logged: None, is_failing: false }
    }

    fn record(&mut self, sent: &OTelSdkResult, count: usize) {
        match sent {
            Ok(()) if std::mem::take(&mut self.is_failing) => {
                tracing::info!("spans are exported again");
            }
            Ok(()) => {}
            Err(error) => {
                self.is_failing = true;
                self.dropped.inc_by(count as u64);
                self.log(error);
            }
        }
    }

    fn log(&mut self, error: &dyn std::error::Error) {
        if self.last_logged.is_some_and(|last| last.elapsed() < REPORT_INTERVAL) {
            return;
        }
        self.last_logged = Some(Instant::now());
        let dropped = self.dropped.get();
        tracing::warn!(%error, dropped_spans = dropped, "failed to export spans");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::UNIX_EPOCH;

    use opentelemetry::InstrumentationScope;
    use opentelemetry::SpanId;
    use opentelemetry::trace::{SpanContext, SpanKind, Status};
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};

    use super::*;

    pub(crate) fn queue(spans_max: usize) -> (Queue, mpsc::Receiver<SpanData>) {
        channel(spans_max, &dropped(&Registry::new()).unwrap())
    }

    pub(crate) fn waiting(spans: &mut mpsc::Receiver<SpanData>) -> Vec<SpanData> {
        std::iter::from_fn(|| spans.try_recv().ok()).collect()
    }

    fn span() -> SpanData {
        SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "put".into(),
            start_time: UNIX_EPOCH,
            end_time: UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }

    /// Records the sizes of batches, and accepts or refuses them.
    #[derive(Clone, Debug, Default)]
    struct Collector {
        batches: Arc<Mutex<Vec<usize>>>,
        refuses: bool,
        hangs: bool,
    }

    impl SpanExporter for Collector {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.batches.lock().unwrap().push(batch.len());
            if self.hangs {
                std::future::pending::<()>().await;
            }
            match self.refuses {
                true => Err(OTelSdkError::InternalFailure("unreachable".to_owned())),
                false => Ok(()),
            }
        }
    }

    struct Running {
        queue: Queue,
        collector: Collector,
        failed: IntCounter,
        stop: oneshot::Sender<()>,
        task: tokio::task::JoinHandle<()>,
    }

    impl Running {
        fn start(collector: Collector) -> Running {
            let batches = BatchSettings::default();
            let (queue, spans) = queue(batches.queue_spans_max);
            let failed = IntCounter::new("failed", "failed").unwrap();
            let failures = Failures::new(failed.clone());
            let sender = Sender { spans, exporter: collector.clone(), batches, failures };
            let (stop, stopping) = oneshot::channel();
            let task = tokio::spawn(sender.run(stopping));
            Running { queue, collector, failed, stop, task }
        }

        async fn stop(self) -> Vec<usize> {
            self.stop.send(()).unwrap();
            self.task.await.unwrap();
            self.collector.batches.lock().unwrap().clone()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spans_are_sent_in_batches() {
        let running = Running::start(Collector::default());
        for _ in 0..512 + 3 {
            running.queue.push(span());
        }
        tokio::time::sleep(Duration::from_secs(6)).await;
        running.queue.push(span());
        assert_eq!(running.stop().await, [512, 3, 1], "the last batch is sent on stop");
    }

    #[tokio::test(start_paused = true)]
    async fn spans_beyond_the_queue_are_dropped_and_counted() {
        let (queue, mut spans) = queue(2);
        (0..5).for_each(|_| queue.push(span()));
        assert_eq!(waiting(&mut spans).len(), 2);
        assert_eq!(queue.full.get(), 3);
        drop(spans);
        queue.push(span());
        assert_eq!(queue.full.get(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_exports_are_counted_and_logged_at_intervals() {
        let running = Running::start(Collector { refuses: true, ..Collector::default() });
        let failed = running.failed.clone();
        for _ in 0..3 {
            running.queue.push(span());
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
        assert_eq!(failed.get(), 3);
        assert_eq!(running.stop().await, [1, 1, 1]);

        let mut failures = Failures::new(failed);
        let refused = Err(OTelSdkError::InternalFailure("no".to_owned()));
        failures.record(&refused, 1);
        let first = failures.last_logged;
        failures.record(&refused, 1);
        assert_eq!(failures.last_logged, first, "logged once");
        tokio::time::advance(REPORT_INTERVAL).await;
        failures.record(&refused, 1);
        assert_ne!(failures.last_logged, first, "logged again after the interval");
    }

    #[tokio::test(start_paused = true)]
    async fn an_export_ends_at_its_timeout() {
        let running = Running::start(Collector { hangs: true, ..Collector::default() });
        let failed = running.failed.clone();
        (0..2).for_each(|_| running.queue.push(span()));
        // The delay of the batch, and the export.
        tokio::time::sleep(Duration::from_secs(34)).await;
        assert_eq!(failed.get(), 0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(failed.get(), 2);
    }

    #[test]
    fn an_invalid_address_is_rejected() {
        let settings = Settings {
            address: "not an address".to_owned(),
            service_name: "etcd".to_owned(),
            instance_id: None,
            sampled_per_million: 0,
        };
        let error = start(&settings, &Registry::new()).unwrap_err().to_string();
        assert!(error.starts_with("distributed tracing: "), "{error}");
    }

    #[test]
    fn closing_does_not_wait_for_a_missing_collector() {
        let settings = Settings {
            // The discard port, where nothing listens.
            address: "127.0.0.1:9".to_owned(),
            service_name: "etcd".to_owned(),
            instance_id: Some("me".to_owned()),
            sampled_per_million: 0,
        };
        let (queue, export) = start(&settings, &Registry::new()).unwrap();
        queue.push(span());
        let began = std::time::Instant::now();
        export.close(Duration::from_millis(200));
        let export_timeout = BatchSettings::default().export_timeout.unwrap();
        assert!(began.elapsed() < export_timeout, "waited for the end of the export");
    }
}
