//! A shared library of arbitrary bytes, as a program describes it before a worker loads it.

use gristmill_library::SharedLibrary;

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(library) = SharedLibrary::read(bytes) else { return };
    for names in [&library.functions, &library.variables] {
        assert!(names.is_sorted_by(|one, next| one < next), "each name is there once");
    }
    // A library without its last bytes never describes more.
    if let Ok(shorter) = SharedLibrary::read(&bytes[..bytes.len() - 1]) {
        assert_eq!(shorter, library, "the tables lie in front of the last byte");
    }
}
