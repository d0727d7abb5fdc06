//! Requests for profiles, and Go's responses to them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ::http::header::{self, HeaderName, HeaderValue};
use ::http::{Method, Response, StatusCode};
use bytes::Bytes;
use sync::oneshot;

use crate::cpu::CpuProfile;
use crate::heap::{HeapProfile, NotSampled};
use crate::index;
use crate::mapped_files::mapped_files;
use crate::symbols::Symbols;
use crate::threads::{self, ThreadCounts, ThreadProfile};

/// The path below which profiles are served.
pub const PREFIX: &str = "/debug/pprof/";
/// The most bytes of a body with addresses of symbols.
pub const SYMBOL_BYTES_MAX: usize = 1 << 20;
/// The seconds of a CPU profile if the request has no parameter, as in Go.
const SECONDS_DEFAULT: i64 = 30;
/// The most seconds of a profile.
const SECONDS_MAX: i64 = 300;
/// The most profiles that are taken at a time; of the CPU, only one.
const RUNNING_MAX: usize = 8;
/// Marks the text of an error as one that pprof's tools show to their users.
const GO_PPROF: HeaderName = HeaderName::from_static("x-go-pprof");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The profiles of this process.
#[derive(Clone, Debug)]
pub struct Profiles {
    command_line: Vec<String>,
}

/// A request for a profile.
#[derive(Debug)]
pub struct ProfileRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The name of the profile: the path below [`PREFIX`].
    pub name: &'a str,
    /// The query, empty if there is none.
    pub query: &'a str,
    /// The body, at most [`SYMBOL_BYTES_MAX`] bytes; only `symbol` uses it.
    pub body: &'a [u8],
}

impl Profiles {
    /// Enables profiles: from now on, allocations are sampled, if the allocator can.
    pub fn new(command_line: Vec<String>) -> Profiles {
        // An allocator that cannot sample reports that when a heap profile is requested.
        env::start_heap_sampling();
        Profiles { command_line }
    }

    /// Answers a request. Dropping the future ends the profile.
    pub async fn respond(&self, request: &ProfileRequest<'_>) -> Response<Bytes> {
        let mut response = self.route(request).await;
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    async fn route(&self, request: &ProfileRequest<'_>) -> Response<Bytes> {
        let parameters = Parameters::parse(request.query);
        match request.name {
            "" => body(HTML, index::page(threads::threads().len())),
            "cmdline" => body(TEXT, self.command_line.join("\0")),
            "symbol" => {
                let is_post = request.method == Method::POST;
                let list = if is_post { request.body } else { request.query.as_bytes() };
                let list = String::from_utf8_lossy(list).into_owned();
                work(move |_| Ok(body(TEXT, symbols(&list)))).await
            }
            "profile" => cpu_profile(&parameters).await,
            "heap" => heap_profile("heap", "inuse_space", parameters).await,
            "allocs" => heap_profile("allocs", "alloc_space", parameters).await,
            "goroutine" => thread_profile("goroutine", ThreadProfile::States, &parameters).await,
            "threadcreate" => {
                thread_profile("threadcreate", ThreadProfile::Names, &parameters).await
            }
            "trace" => not_recorded("execution traces", "use distributed tracing"),
            "block" | "mutex" => not_recorded(
                "waits for locks",
                "use the profiles profile and goroutine, and the histograms of /metrics",
            ),
            _ => error(StatusCode::NOT_FOUND, "Unknown profile"),
        }
    }
}

/// A request that cannot be answered, with its status and text.
#[derive(Debug)]
struct Refusal(StatusCode, String);

impl Refusal {
    fn respond(self) -> Response<Bytes> {
        error(self.0, &self.1)
    }
}

/// The parameters of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parameters {
    seconds: Option<String>,
    debug: bool,
}

impl Parameters {
    /// Parses a query. Of equal names the first counts.
    fn parse(query: &str) -> Parameters {
        let mut debug = None;
        let mut parameters = Parameters::default();
        for (name, value) in gocompat::query_pairs(query) {
            match name.as_str() {
                "seconds" => drop(parameters.seconds.get_or_insert(value)),
                "debug" => drop(debug.get_or_insert(value)),
                _ => {}
            }
        }
        let debug = debug.and_then(|debug| gocompat::parse_decimal(&debug).ok());
        parameters.seconds = parameters.seconds.filter(|seconds| !seconds.is_empty());
        Parameters { debug: debug.is_some_and(|debug| debug != 0), ..parameters }
    }
}

/// Takes a CPU profile. Compat: as in Go, anything but a positive number of seconds means 30.
async fn cpu_profile(parameters: &Parameters) -> Response<Bytes> {
    let given = parameters.seconds.as_deref().map(gocompat::parse_decimal);
    let seconds = match given {
        Some(Ok(seconds)) if seconds > 0 => seconds,
        _ => SECONDS_DEFAULT,
    };
    let duration = match bounded(seconds) {
        Ok(duration) => duration,
        Err(refused) => return refused.respond(),
    };
    let refuse = |error| {
        let text = format!("Could not enable CPU profiling: {error}");
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    work(move |is_canceled| {
        let profile = CpuProfile::start().map_err(refuse)?;
        let encoded = profile.run(duration, is_canceled).map_err(refuse)?;
        Ok(attachment("profile", encoded))
    })
    .await
}

async fn heap_profile(
    name: &'static str,
    default_kind: &'static str,
    parameters: Parameters,
) -> Response<Bytes> {
    let duration = match delta(&parameters) {
        Ok(duration) => duration,
        Err(refused) => return refused.respond(),
    };
    work(move |is_canceled| {
        let profile = HeapProfile::take().map_err(|error| refuse_heap(&error))?;
        match duration {
            Some(duration) => {
                wait(duration, &is_canceled);
                let later = HeapProfile::take().map_err(|error| refuse_heap(&error))?;
                let (difference, duration) = later.since(profile);
                let encoded = difference.encode(default_kind, duration);
                Ok(attachment(&format!("{name}-delta"), encoded))
            }
            None if parameters.debug => Ok(body(TEXT, profile.text())),
            None => Ok(attachment(name, profile.encode(default_kind, Duration::ZERO))),
        }
    })
    .await
}

fn refuse_heap(error: &NotSampled) -> Refusal {
    Refusal(StatusCode::NOT_IMPLEMENTED, format!("failed to collect profile: {error}"))
}

/// Returns how long to wait between two profiles whose difference is requested.
fn delta(parameters: &Parameters) -> Result<Option<Duration>, Refusal> {
    let Some(seconds) = &parameters.seconds else { return Ok(None) };
    let seconds = gocompat::parse_decimal(seconds).ok().filter(|seconds| *seconds > 0);
    let refuse = |text: &str| Err(Refusal(StatusCode::BAD_REQUEST, text.to_owned()));
    match seconds {
        None => refuse(r#"invalid value for "seconds" - must be a positive integer"#),
        Some(_) if parameters.debug => refuse("seconds and debug params are incompatible"),
        Some(seconds) => bounded(seconds).map(Some),
    }
}

/// Refuses a duration beyond the bound.
fn bounded(seconds: i64) -> Result<Duration, Refusal> {
    match u64::try_from(seconds) {
        Ok(found) if seconds <= SECONDS_MAX => Ok(Duration::from_secs(found)),
        _ => {
            let text = format!("a profile takes at most {SECONDS_MAX} seconds; request several");
            Err(Refusal(StatusCode::BAD_REQUEST, text))
        }
    }
}

async fn thread_profile(
    name: &'static str,
    what: ThreadProfile,
    parameters: &Parameters,
) -> Response<Bytes> {
    let take = move || ThreadCounts::of(&threads::threads(), what);
    match delta(parameters) {
        Err(refused) => refused.respond(),
        Ok(Some(duration)) => {
            work(move |is_canceled| {
                let earlier = take();
                wait(duration, &is_canceled);
                let (difference, duration) = take().since(earlier);
                Ok(attachment(&format!("{name}-delta"), difference.encode(duration)))
            })
            .await
        }
        Ok(None) if parameters.debug => body(TEXT, threads::text(&threads::threads())),
        Ok(None) => attachment(name, take().encode(Duration::ZERO)),
    }
}

/// Resolves addresses that are joined by `+`, each to a line `address name`.
fn symbols(list: &str) -> String {
    let words = list.split('+').filter_map(|word| gocompat::parse_uint(word.trim(), 64).ok());
    let addresses: Vec<u64> = words.filter(|address| *address != 0).collect();
    let known = symbols_exist as *const () as u64;
    let wanted = addresses.iter().copied().chain([known]).collect();
    let symbols = Symbols::resolve(&wanted, &mapped_files());
    // Tools only test for a non-zero count.
    let mut text = format!("num_symbols: {}\n", usize::from(!symbols.get(known).is_empty()));
    for address in addresses {
        if let Some(call) = symbols.get(address).last() {
            text.push_str(&format!("{address:#x} {}\n", call.function));
        }
    }
    text
}

/// A function whose name is known if any name is.
fn symbols_exist() {}

fn not_recorded(what: &str, instead: &str) -> Response<Bytes> {
    let text = format!("Bowline has no Go runtime that records {what}; {instead}");
    error(StatusCode::NOT_IMPLEMENTED, &text)
}

/// Runs `job` in a thread of its own: a profile takes seconds, and resolving its addresses blocks.
/// `job` can check whether the request was dropped.
async fn work(
    job: impl FnOnce(&dyn Fn() -> bool) -> Result<Response<Bytes>, Refusal> + Send + 'static,
) -> Response<Bytes> {
    let Some(permit) = Permit::acquire() else {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "too many profiles are being taken");
    };
    let (sender, receiver) = oneshot::channel();
    let run = move || {
        let _permit = permit;
        let done = job(&|| sender.is_canceled());
        // The request may have been dropped.
        let _ = sender.send(done.unwrap_or_else(Refusal::respond));
    };
    let failed = |text: &str| error(StatusCode::INTERNAL_SERVER_ERROR, text);
    match thread::Builder::new().name("pprof".to_owned()).spawn(run) {
        Ok(_thread) => receiver.await.unwrap_or_else(|_| failed("failed to collect profile")),
        Err(cause) => {
            failed(&format!("failed to start a thread: {}", gocompat::os_error_text(&cause)))
        }
    }
}

/// The right to take a profile, returned when dropped.
struct Permit(());

/// Profiles that are being taken.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

impl Permit {
    fn acquire() -> Option<Permit> {
        let more = |running| (running < RUNNING_MAX).then_some(running + 1);
        RUNNING.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Permit(()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Sleeps until the time is over or the request was dropped.
fn wait(duration: Duration, is_canceled: &dyn Fn() -> bool) {
    /// The interval at which the request is checked.
    const INTERVAL: Duration = Duration::from_millis(50);
    let mut left = duration;
    while !left.is_zero() && !is_canceled() {
        let pause = left.min(INTERVAL);
        thread::sleep(pause);
        left -= pause;
    }
}

fn body(kind: HeaderValue, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Returns a profile as a file to save.
fn attachment(name: &str, profile: Vec<u8>) -> Response<Bytes> {
    let mut response = body(BINARY, profile);
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// Returns an error in the form that pprof's tools print.
fn error(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut response = body(TEXT, format!("{text}\n"));
    *response.status_mut() = status;
    response.headers_mut().insert(GO_PPROF, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
pub(crate) mod tests;
