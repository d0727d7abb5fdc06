//! The index page.

use std::fmt::Write as _;

/// The profiles and what they show.
pub(crate) const PROFILES: [(&str, &str); 10] = [
    ("allocs", "A sampling of all past memory allocations."),
    ("block", "Not recorded: there is no Go runtime. See profile, goroutine and /metrics."),
    ("cmdline", "The command line of the process, separated by NUL bytes."),
    ("goroutine", "The threads of the process: name, state, and what each waits for."),
    ("heap", "A sampling of the memory allocations of live objects."),
    ("mutex", "Not recorded: there is no Go runtime. See profile, goroutine and /metrics."),
    ("profile", "CPU profile; duration in seconds= (default 30). Open it with go tool pprof."),
    ("symbol", "Function names of addresses, given in the query or in a POST body, joined by '+'."),
    ("threadcreate", "The threads of the process by name."),
    ("trace", "Not recorded: there is no Go runtime. See distributed tracing."),
];

/// Returns the page. `threads` is the number of threads.
pub(crate) fn page(threads: usize) -> String {
    let mut rows = String::new();
    let mut descriptions = String::new();
    for (name, what) in PROFILES {
        let count = if matches!(name, "goroutine" | "threadcreate") { threads } else { 0 };
        // Writing to a string never fails.
        let _ =
            writeln!(rows, "<tr><td>{count}</td><td><a href='{name}?debug=1'>{name}</a></td></tr>");
        let _ = writeln!(descriptions, "<dt>{name}</dt><dd>{what}</dd>");
    }
    format!(
        "<html>\n<head><title>/debug/pprof/</title></head>\n<body>\n\
         <h1>/debug/pprof/</h1>\n\
         <p>go tool pprof opens each of these; debug=1 in the query gives text.</p>\n\
         <table>\n<thead><tr><td>Count</td><td>Profile</td></tr></thead>\n{rows}</table>\n\
         <dl>\n{descriptions}</dl>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_links_to_every_profile() {
        let page = page(23);
        for (name, _) in PROFILES {
            assert!(page.contains(&format!("<a href='{name}?debug=1'>")), "{name}");
        }
        assert!(page.contains("<td>23</td><td><a href='goroutine"));
    }
}
