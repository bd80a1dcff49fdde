//! Libraries of this system are described, and any other bytes are an error.

use gristmill_library::{LibraryError, SharedLibrary};
use proptest::prelude::*;

/// Reads the C library that this process runs with.
fn c_library() -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the process has a memory map");
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libc.so") || path.contains("/libc-2") || path.contains("musl"))
        .expect("the C library is mapped");
    std::fs::read(path).expect("it can be read")
}

#[test]
fn the_functions_of_a_library_and_what_it_needs_are_known() {
    let library = SharedLibrary::read(&c_library()).expect("it is a library");
    assert!(library.functions.iter().any(|name| name == "malloc"));
    assert!(library.functions.is_sorted_by(|one, next| one < next));
    assert!(library.variables.iter().any(|name| name == "environ"));
    assert!(library.name.is_some());
}

#[test]
fn an_executable_is_no_library() {
    let own = std::fs::read("/proc/self/exe").expect("it can be read");
    assert_eq!(SharedLibrary::read(&own), Err(LibraryError::NotShared { kind: "an executable" }));
}

#[test]
fn a_library_of_another_machine_is_named() {
    let mut bytes = c_library();
    bytes[18..20].copy_from_slice(&21_u16.to_le_bytes());
    let error = SharedLibrary::read(&bytes).expect_err("it is for another machine");
    assert!(error.to_string().contains("another machine (ppc64)"), "{error}");
    bytes[4] = 1;
    let error = SharedLibrary::read(&bytes).expect_err("it is for another machine");
    assert!(error.to_string().contains("32 bits"), "{error}");
}

#[test]
fn a_library_that_was_cut_off_is_an_error_wherever_it_ends() {
    let bytes = c_library();
    for length in [0, 3, 4, 63, 64, 200, 4096, bytes.len() / 2, bytes.len() - 1] {
        let error = SharedLibrary::read(&bytes[..length]).expect_err("it was cut off");
        let is_said = matches!(error, LibraryError::NotElf | LibraryError::Truncated { .. });
        assert!(is_said, "{length}: {error}");
    }
    assert_eq!(SharedLibrary::read(b"#!/bin/sh\n"), Err(LibraryError::NotElf));
}

proptest! {
    #[test]
    fn damaged_tables_never_panic(changes in prop::collection::vec((0..64_usize, any::<u8>()), 1..8), place in any::<prop::sample::Index>()) {
        let mut bytes = c_library();
        let start = place.index(bytes.len() - 64);
        for (offset, byte) in &changes {
            bytes[start + offset] = *byte;
        }
        let _ = SharedLibrary::read(&bytes);
        // The header has most of the tables' places.
        for (offset, byte) in changes {
            bytes[offset.max(4)] = byte;
        }
        let _ = SharedLibrary::read(&bytes);
    }
}
