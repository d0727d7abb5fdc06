//! What is counted: files that were read again, and until when the certificate is good. The names are our own; etcd has none for this.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// What all listeners count.
#[derive(Clone, Debug)]
pub struct Metrics {
    reloads: IntCounterVec,
    expiry: IntGaugeVec,
}

impl Metrics {
    /// Registers them.
    ///
    /// # Errors
    /// If they are there already.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let reloads = IntCounterVec::new(
            Opts::new(
                "bowline_tls_reloads_total",
                "Changes of TLS files that were taken (result ok) or refused (result failed).",
            ),
            &["listener", "result"],
        )?;
        let expiry = IntGaugeVec::new(
            Opts::new(
                "bowline_tls_certificate_expiry_seconds",
                "When the certificate expires that is shown, in seconds since 1970.",
            ),
            &["listener"],
        )?;
        registry.register(Box::new(reloads.clone()))?;
        registry.register(Box::new(expiry.clone()))?;
        Ok(Metrics { reloads, expiry })
    }

    /// A certificate is shown from now on.
    pub(crate) fn shows(&self, listener: &str, not_after: i64) {
        self.expiry.with_label_values(&[listener]).set(not_after);
        // So that there is something to see before anything happens.
        for result in ["ok", "failed"] {
            self.reloads.with_label_values(&[listener, result]);
        }
    }

    /// Files have changed.
    pub(crate) fn reloaded(&self, listener: &str, is_ok: bool) {
        let result = if is_ok { "ok" } else { "failed" };
        self.reloads.with_label_values(&[listener, result]).inc();
    }
}
