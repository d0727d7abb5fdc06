//! The output of `--help` and `--version`.

use config::Exit;

use super::run;

fn printed(args: &[&str]) -> (String, String, u8) {
    match run(args, &[]) {
        Err(Exit::Printed { stdout, stderr, code }) => (stdout, stderr, code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_version_starts_with_etcds() {
    let (stdout, stderr, code) = printed(&["--version"]);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], format!("etcd Version: {}", types::ETCD_VERSION));
    assert!(lines[1].starts_with("Git SHA: ") && lines[2].starts_with("Go Version: "));
    assert!(lines[3].starts_with("Go OS/Arch: ") && lines[3].ends_with("/amd64"));
    assert_eq!(lines[4], concat!("Bowline Version: ", env!("CARGO_PKG_VERSION")));
    assert_eq!((stderr.as_str(), code), ("", 0));
}

/// As in etcd, the usage goes to standard error and the flags go to standard output.
#[test]
fn help_is_printed_on_both_streams() {
    for args in [&["--help"], &["-h"], &["-h=x"]] {
        let (stdout, stderr, code) = printed(args);
        assert!(stderr.starts_with("Usage:\n"), "{stderr}");
        assert_eq!(code, 0);
        for heading in
            ["Member:", "Clustering:", "Security:", "Auth:", "Logging:", "Features:", "Unsafe:"]
        {
            assert!(stdout.lines().any(|line| line == heading), "{heading}");
        }
        assert!(stdout.contains("  --heartbeat-interval '100'\n"));
        assert!(stdout.contains("    LeaseCheckpoint=true|false (ALPHA - default=false)\n"));
    }
}

#[test]
fn an_unknown_flag_prints_the_usage() {
    let (stdout, stderr, code) = printed(&["--bogus"]);
    assert!(stderr.starts_with("flag provided but not defined: -bogus\nUsage:\n"));
    assert_eq!((stdout.as_str(), code), ("", 2));
}
