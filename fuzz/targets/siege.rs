//! Whatever a peer can say, in any order, to the engine of a program, with blobs and without, and to that of a lease; and
//! whatever a worker can ask for.

#![no_main]

use gristmill_sim::{AskerSiege, Choices, DataSiege, LeaseSiege, Siege};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let choices = Choices::new(rest);
    let report = match first % 5 {
        4 => return drop(AskerSiege::default().run(choices)),
        0 => DataSiege::default().run(choices),
        1 => LeaseSiege::new(first / 5).run(choices),
        kind => Siege::new(kind == 2).run(choices),
    };
    assert!(report.tainted <= report.tasks);
});
