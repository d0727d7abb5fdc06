//! Paths, as the package `path` handles them.

/// Returns the shortest path with the same meaning, as `path.Clean` does for an absolute path:
/// without empty, `.` and `..` parts, and without a slash at the end.
pub fn clean_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_in_go() {
        for (path, cleaned) in [
            ("/", "/"),
            ("/a/b/", "/a/b"),
            ("//a//./b", "/a/b"),
            ("/a/../b/..", "/"),
            ("/../..", "/"),
            ("/a/.../b", "/a/.../b"),
        ] {
            assert_eq!(clean_path(path), cleaned, "{path}");
        }
    }
}
