//! Whatever a peer can say, in any order, to the engine of a program and to that of a lease.

#![no_main]

use gristmill_sim::{Choices, Siege};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let report = Siege::new(first & 1 != 0).run(Choices::new(rest));
    assert!(report.tainted <= report.tasks);
});
