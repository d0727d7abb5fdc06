//! Metrics: reloads of TLS files and the expiry of certificates. The names are our own; etcd has no
//! such metrics.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// The TLS metrics of all listeners.
#[derive(Clone, Debug)]
pub struct Metrics {
    reloads: IntCounterVec,
    expiry: IntGaugeVec,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If they are already registered.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let reloads = IntCounterVec::new(
            Opts::new(
                "bowline_tls_reloads_total",
                "Reloads of TLS files that succeeded (result ok) or failed (result failed).",
            ),
            &["listener", "result"],
        )?;
        let expiry = IntGaugeVec::new(
            Opts::new(
                "bowline_tls_certificate_expiry_seconds",
                "When the certificate in use expires, in seconds since 1970.",
            ),
            &["listener"],
        )?;
        registry.register(Box::new(reloads.clone()))?;
        registry.register(Box::new(expiry.clone()))?;
        Ok(Metrics { reloads, expiry })
    }

    /// Sets the expiry of the certificate in use.
    pub(crate) fn set_expiry(&self, listener: &str, not_after: i64) {
        self.expiry.with_label_values(&[listener]).set(not_after);
        // Initializes the counters, so that they are exported before the first reload.
        for result in ["ok", "failed"] {
            self.reloads.with_label_values(&[listener, result]);
        }
    }

    /// Counts a reload.
    pub(crate) fn count_reload(&self, listener: &str, is_ok: bool) {
        let result = if is_ok { "ok" } else { "failed" };
        self.reloads.with_label_values(&[listener, result]).inc();
    }
}
