//! Metrics of the process, read from `/proc/self` and the memory allocator at each request.
//!
//! ```text
//!   stat            30411 (bowline) S … utime 14 stime 2 … starttime 731066 vsize … rss …
//!   limits          Max open files            20000                20000                files
//!   fd/             0 1 2 3 …
//!   net/netstat     IpExt: … InOctets OutOctets …
//!                   IpExt: … 2563437  2500388   …
//!   /proc/stat      btime 1794758630
//! ```
//!
//! Values that cannot be read are left out, so systems other than Linux have none of these metrics.
//! Of Go's own metrics (`go_*`), those exist that have the same meaning here: the memory that the
//! allocator has handed out and that it keeps, and the number of threads. There are no goroutines
//! and no garbage collector.

use std::collections::HashMap;
use std::fs;

use env::AllocatorStats;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, Metric, MetricFamily, MetricType};
use serde_json::{Map, Value};

/// The unit of process times in `/proc`: hundredths of a second on all systems.
const TICKS_PER_SECOND: f64 = 100.0;

/// Measurements of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    /// CPU time.
    pub(super) cpu_seconds: Option<f64>,
    /// Open file descriptors.
    pub(super) open_fds: Option<u64>,
    /// The most file descriptors that may be open.
    pub(super) max_fds: Option<u64>,
    /// Bytes of the address space in use.
    pub(super) virtual_bytes: Option<u64>,
    /// Bytes of resident memory.
    pub(super) resident_bytes: Option<u64>,
    /// The most bytes of address space; the largest number if there is no limit.
    pub(super) virtual_max_bytes: Option<u64>,
    /// Start time in seconds since 1970.
    pub(super) start_seconds: Option<f64>,
    /// Bytes received over the network, by all processes.
    pub(super) received_bytes: Option<u64>,
    /// Bytes sent over the network, by all processes.
    pub(super) transmitted_bytes: Option<u64>,
    /// Threads.
    pub(super) threads: Option<u64>,
    /// Memory of the allocator.
    pub(super) allocator: Option<AllocatorStats>,
}

impl Process {
    /// Measures this process.
    pub(super) fn now() -> Process {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
        let boot = || fs::read_to_string("/proc/stat").ok().and_then(|text| boot_seconds(&text));
        let mut process = Process::default();
        if let Some(stat) = read("stat") {
            process.read_stat(&stat, boot());
        }
        if let Some(status) = read("status") {
            process.resident_bytes = field(&status, "VmRSS:").map(|kib| kib * 1024);
            process.threads = field(&status, "Threads:");
        }
        if let Some(limits) = read("limits") {
            process.max_fds = limit(&limits, "Max open files");
            process.virtual_max_bytes = limit(&limits, "Max address space");
        }
        if let Some(netstat) = read("net/netstat") {
            process.received_bytes = octets(&netstat, "InOctets");
            process.transmitted_bytes = octets(&netstat, "OutOctets");
        }
        process.allocator = env::allocator_stats();
        process.open_fds = fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64);
        process
    }

    /// Parses `stat`. The program name in parentheses may contain anything, so fields are counted
    /// from the last parenthesis.
    fn read_stat(&mut self, stat: &str, boot: Option<f64>) {
        let Some((_, rest)) = stat.rsplit_once(')') else { return };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let seconds = |at: usize| number(at).map(|ticks| as_float(ticks) / TICKS_PER_SECOND);
        let [user, system, start, size] = [11, 12, 19, 20];
        self.cpu_seconds = seconds(user).zip(seconds(system)).map(|(user, system)| user + system);
        self.start_seconds = boot.zip(seconds(start)).map(|(boot, start)| boot + start);
        self.virtual_bytes = number(size);
    }

    /// Returns the values in the order of [`METRICS`].
    fn values(&self) -> [Option<f64>; METRICS.len()] {
        let float = |number: Option<u64>| number.map(as_float);
        let allocated = float(self.allocator.map(|memory| memory.allocated));
        let free = float(self.allocator.map(|memory| memory.free));
        let obtained = float(self.heap_sys_bytes());
        [
            self.cpu_seconds,
            float(self.open_fds),
            float(self.max_fds),
            float(self.virtual_bytes),
            float(self.virtual_max_bytes),
            float(self.resident_bytes),
            self.start_seconds,
            float(self.received_bytes),
            float(self.transmitted_bytes),
            float(self.threads),
            allocated,
            allocated,
            allocated,
            free,
            obtained,
            float(self.resident_bytes),
        ]
    }

    /// Returns the memory of the allocator, used and free.
    fn heap_sys_bytes(&self) -> Option<u64> {
        self.allocator.map(|memory| memory.allocated.saturating_add(memory.free))
    }

    /// Returns those of Go's `runtime.MemStats` that have the same meaning here, with the values of
    /// the metrics `go_memstats_*`. Unknown ones are left out.
    pub(super) fn memory_stats(&self) -> Map<String, Value> {
        let allocated = self.allocator.map(|memory| memory.allocated);
        let stats = [
            ("Alloc", allocated),
            ("Sys", self.resident_bytes),
            ("HeapAlloc", allocated),
            ("HeapSys", self.heap_sys_bytes()),
            ("HeapIdle", self.allocator.map(|memory| memory.free)),
            ("HeapInuse", allocated),
        ];
        let known = stats.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), bytes?)));
        known.map(|(name, bytes)| (name, bytes.into())).collect()
    }
}

/// The name and help of each metric, and whether it is a counter.
const METRICS: [(&str, &str, bool); 16] = [
    ("process_cpu_seconds_total", "Processor time spent, in seconds.", true),
    ("process_open_fds", "Open file descriptors.", false),
    ("process_max_fds", "The most file descriptors that may be open.", false),
    ("process_virtual_memory_bytes", "Address space in use, in bytes.", false),
    ("process_virtual_memory_max_bytes", "The most address space, in bytes.", false),
    ("process_resident_memory_bytes", "Memory in use, in bytes.", false),
    ("process_start_time_seconds", "When the process began, in seconds since 1970.", false),
    ("process_network_receive_bytes_total", "Bytes received over the network.", true),
    ("process_network_transmit_bytes_total", "Bytes sent over the network.", true),
    ("go_threads", "Threads of the operating system.", false),
    ("go_memstats_alloc_bytes", "Memory that the process has allocated, in bytes.", false),
    ("go_memstats_heap_alloc_bytes", "Memory that the process has allocated, in bytes.", false),
    ("go_memstats_heap_inuse_bytes", "Memory that the process has allocated, in bytes.", false),
    (
        "go_memstats_heap_idle_bytes",
        "Memory that the allocator keeps for later, in bytes. Some may be with the system already.",
        false,
    ),
    ("go_memstats_heap_sys_bytes", "Memory of the allocator, used and free, in bytes.", false),
    ("go_memstats_sys_bytes", "Memory in use, in bytes.", false),
];

/// Collects the metrics of this process.
#[derive(Debug)]
pub struct ProcessMetrics {
    descriptions: Vec<Desc>,
}

impl ProcessMetrics {
    /// Describes the metrics.
    ///
    /// # Errors
    /// A description is invalid.
    pub fn new() -> prometheus::Result<ProcessMetrics> {
        let descriptions = METRICS.map(|(name, help, _)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), HashMap::new())
        });
        Ok(ProcessMetrics { descriptions: descriptions.into_iter().collect::<Result<_, _>>()? })
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let known = METRICS.into_iter().zip(Process::now().values());
        known.filter_map(|(metric, value)| Some(family(metric, value?))).collect()
    }
}

fn family((name, help, is_counter): (&str, &str, bool), value: f64) -> MetricFamily {
    let mut metric = Metric::default();
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    if is_counter {
        let mut counter = Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
        family.set_field_type(MetricType::COUNTER);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
        family.set_field_type(MetricType::GAUGE);
    }
    family.set_metric(vec![metric]);
    family
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn as_float(number: u64) -> f64 {
    number as f64
}

/// Parses the line `btime`: the boot time in seconds since 1970.
fn boot_seconds(stat: &str) -> Option<f64> {
    field(stat, "btime").map(as_float)
}

/// Parses the number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Parses the soft limit in the table of limits.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().find(|word| *word == "unlimited" || word.parse::<u64>().is_ok()) {
        Some("unlimited") => Some(u64::MAX),
        soft => soft?.parse().ok(),
    }
}

/// Parses a number from two lines, of which the first has the names.
fn octets(netstat: &str, name: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("IpExt:"));
    let at = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "30411 (bow (l) ine) S 1 30411 30411 0 -1 4194560 3 0 0 0 14 2 0 0 20 0 \
                        11 0 731066 12575776768 8495 18446744073709551615 1 1";

    #[test]
    fn stat_is_parsed_after_any_program_name() {
        let mut process = Process::default();
        process.read_stat(STAT, Some(1000.0));
        assert_eq!(process.cpu_seconds, Some(0.16));
        assert_eq!(process.start_seconds, Some(8310.66));
        assert_eq!(process.virtual_bytes, Some(12_575_776_768));
    }

    #[test]
    fn missing_values_are_none() {
        let mut process = Process::default();
        process.read_stat("", None);
        process.read_stat("1 (x) S 1", None);
        assert_eq!(process, Process::default());
        assert_eq!(limit("Max open files   soft", "Max open files"), None);
        assert_eq!(octets("IpExt: A B\nIpExt: 1", "B"), None);
    }

    #[test]
    fn limits_and_netstat_are_parsed() {
        let limits = "Max address space         unlimited            unlimited            bytes\n\
                      Max open files            20000                40000                files\n";
        assert_eq!(limit(limits, "Max open files"), Some(20_000));
        assert_eq!(limit(limits, "Max address space"), Some(u64::MAX));
        let netstat = "TcpExt: A InOctets\nTcpExt: 8 9\nIpExt: A InOctets\nIpExt: 1 2\n";
        assert_eq!(octets(netstat, "InOctets"), Some(2));
        assert_eq!(boot_seconds("cpu 1\nbtime 1794758630\n"), Some(1_794_758_630.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_can_be_measured() {
        let process = Process::now();
        assert!(process.open_fds.is_some_and(|open| open > 2));
        assert!(process.max_fds >= process.open_fds);
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 16));
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.start_seconds.is_some_and(|start| start > 1e9));
        assert!(process.threads.is_some_and(|threads| threads > 0));
    }

    #[test]
    fn memory_statistics_have_the_values_of_the_metrics() {
        let allocator = Some(AllocatorStats { allocated: 70, free: 5 });
        let process = Process { allocator, resident_bytes: Some(90), ..Process::default() };
        let metric = |name: &str| {
            let at = METRICS.iter().position(|(known, ..)| *known == name);
            process.values()[at.unwrap_or_else(|| panic!("no metric {name}"))]
        };
        for (stat, name, bytes) in [
            ("Alloc", "go_memstats_alloc_bytes", 70),
            ("Sys", "go_memstats_sys_bytes", 90),
            ("HeapAlloc", "go_memstats_heap_alloc_bytes", 70),
            ("HeapSys", "go_memstats_heap_sys_bytes", 75),
            ("HeapIdle", "go_memstats_heap_idle_bytes", 5),
            ("HeapInuse", "go_memstats_heap_inuse_bytes", 70),
        ] {
            assert_eq!(process.memory_stats()[stat], bytes, "{stat}");
            assert_eq!(metric(name), Some(as_float(bytes)), "{name}");
        }
        assert_eq!(Process::default().memory_stats(), Map::new());
    }

    #[test]
    fn memory_of_the_allocator_is_used_or_free() {
        let allocator = Some(AllocatorStats { allocated: 70, free: 5 });
        let values = Process { allocator, ..Process::default() }.values();
        let shown: Vec<_> = METRICS
            .into_iter()
            .zip(values)
            .filter_map(|((name, ..), value)| Some((name, value?)))
            .collect();
        assert_eq!(
            shown,
            [
                ("go_memstats_alloc_bytes", 70.0),
                ("go_memstats_heap_alloc_bytes", 70.0),
                ("go_memstats_heap_inuse_bytes", 70.0),
                ("go_memstats_heap_idle_bytes", 5.0),
                ("go_memstats_heap_sys_bytes", 75.0),
            ]
        );
    }
}
