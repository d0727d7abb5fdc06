//! Creates and registers metrics.

use prometheus::core::Collector;
use prometheus::{
    Error, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, exponential_buckets,
};

use super::op::{PerOp, PerOutcome};

/// The bounds of a histogram: `count` of them, each twice the one before.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) first: f64,
    pub(super) count: usize,
}

/// The label for success and failure.
const SUCCESS: &str = "success";

/// Creates metrics and registers each under its name.
#[derive(Clone, Copy)]
pub(super) struct Make<'a>(pub(super) &'a Registry);

impl Make<'_> {
    pub(super) fn counter(self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.add(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(
        self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, Error> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn gauge(self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.add(IntGauge::new(name, help)?)
    }

    pub(super) fn gauges(
        self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, Error> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn histogram(
        self,
        name: &str,
        help: &str,
        bounds: Bounds,
    ) -> Result<Histogram, Error> {
        self.add(Histogram::with_opts(options(name, help, bounds)?)?)
    }

    /// Creates a histogram by kind of request and by success, the last two labels. `first` is the
    /// constant value of a label before them.
    pub(super) fn per_op<const N: usize>(
        self,
        name: &str,
        help: &str,
        bounds: Bounds,
        labels: [&str; N],
        first: Option<&'static str>,
    ) -> Result<PerOp, Error> {
        let labels: Vec<&str> = labels.into_iter().chain([SUCCESS]).collect();
        let vec = self.add(HistogramVec::new(options(name, help, bounds)?, &labels)?)?;
        Ok(PerOp::new(vec, first))
    }

    /// Creates a histogram by success.
    pub(super) fn per_outcome(
        self,
        name: &str,
        help: &str,
        bounds: Bounds,
    ) -> Result<PerOutcome, Error> {
        let vec = HistogramVec::new(options(name, help, bounds)?, &[SUCCESS])?;
        Ok(PerOutcome::new(self.add(vec)?))
    }

    fn add<M: Collector + Clone + 'static>(self, metric: M) -> Result<M, Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

fn options(name: &str, help: &str, bounds: Bounds) -> Result<HistogramOpts, Error> {
    let bounds = exponential_buckets(bounds.first, 2.0, bounds.count)?;
    Ok(HistogramOpts::new(name, help).buckets(bounds))
}
