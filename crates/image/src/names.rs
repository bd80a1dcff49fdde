//! Rules for the names and link targets of an image, which may come from an untrusted program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Longest name, bytes: the system's limit for a path, less room for the folder that the image is unpacked to.
pub const NAME_SIZE_MAX: usize = 3500;

/// Returns the reason why a name is invalid, or `None` if it is valid.
///
/// A valid name is a relative path of parts joined by single slashes. No part is `.` or `..`: such a name could lead out of the
/// folder, or be a second name of the same entry.
pub fn fault_of_name(name: &Path) -> Option<&'static str> {
    let bytes = name.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() > NAME_SIZE_MAX || bytes.contains(&0) {
        return Some("a name is empty, too long or holds a zero byte");
    }
    let is_plain =
        bytes.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."));
    (!is_plain).then_some("a name leads out of the folder")
}

/// Returns the reason why the target of a link is invalid, or `None` if it is valid. A valid target is not empty or too long,
/// has no zero byte, and stays in the image, with one exception.
///
/// `..` is valid only at the start of a target. After a name that is itself a link, the system would resolve `..` from that
/// link's target. The exception is for the interpreter, which is not in the image: `bin/python` and similar names may be links
/// to any absolute path whose last part starts with `python` or `pypy`. `unpack` also refuses such a link to a folder.
pub fn fault_of_link(name: &Path, target: &Path) -> Option<&'static str> {
    let bytes = target.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() > NAME_SIZE_MAX || bytes.contains(&0) {
        return Some("a target is empty, too long or holds a zero byte");
    }
    if target.is_absolute() {
        // True if the link is one to an interpreter.
        let is_one = is_interpreter(name) && is_plain_path(target);
        return (!is_one).then_some("a link leads out of the folder");
    }
    let depth = name.components().count().saturating_sub(1);
    let ups = target.components().take_while(|part| *part == Component::ParentDir).count();
    let is_plain = target.components().skip(ups).all(|part| matches!(part, Component::Normal(_)));
    (ups > depth || !is_plain).then_some("a link leads out of the folder")
}

/// Returns true if a link has the name of an interpreter: `bin/python`, `bin/python3.11` or similar.
fn is_interpreter(name: &Path) -> bool {
    let rest = name.strip_prefix("bin").ok().map(|rest| rest.as_os_str().as_bytes());
    rest.and_then(|rest| rest.strip_prefix(b"python")).is_some_and(|version| {
        version.iter().all(|byte| byte.is_ascii_digit() || b".t".contains(byte))
    })
}

/// Returns true if a target may be an interpreter: it has no `..`, and its last part starts with `python` or `pypy`.
fn is_plain_path(target: &Path) -> bool {
    let has_up = target.components().any(|part| part == Component::ParentDir);
    let file = target.file_name().map_or(&b""[..], OsStr::as_bytes);
    !has_up && (file.starts_with(b"python") || file.starts_with(b"pypy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["a", "a/b", "a/..b", ".a", "a b/c"] {
            assert_eq!(fault_of_name(Path::new(name)), None, "{name}");
        }
        let long = "a/".repeat(NAME_SIZE_MAX) + "a";
        for name in
            ["", "/", "/a", "..", "a/..", "../a", "a/../b", "./a", "a//b", "a/", "a\0b", &long]
        {
            assert!(fault_of_name(Path::new(name)).is_some(), "{name}");
        }
    }

    #[test]
    fn links_stay_in_the_image_but_for_the_interpreters() {
        let fault = |name: &str, target: &str| fault_of_link(Path::new(name), Path::new(target));
        for (name, target) in [
            ("lib64", "lib"),
            ("a/b/c", "../../d/e"),
            ("a/b", "c"),
            ("bin/python", "python3"),
            ("bin/python3", "/usr/bin/python3.11"),
            ("bin/python3.13t", "/opt/python/bin/python3.13t"),
        ] {
            assert_eq!(fault(name, target), None, "{name} -> {target}");
        }
        for (name, target) in [
            ("a", ".."),
            ("a/b", "../../c"),
            ("a", "/etc/passwd"),
            ("a", "b/../c"),
            ("a/b", "../c/.."),
            ("a", ""),
            ("bin/python3", "/etc/passwd"),
            ("bin/python3", "/usr/../etc/python"),
            ("bin/pythonic", "/usr/bin/python3"),
            ("lib/python3", "/usr/bin/python3"),
        ] {
            assert!(fault(name, target).is_some(), "{name} -> {target}");
        }
    }
}
