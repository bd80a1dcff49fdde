//! Arbitrary messages of a peer, in any order, to the engine of a program, with blobs and without, and to that of a lease; and
//! arbitrary requests of a worker.

use gristmill_sim::{AskerSiege, Choices, DataSiege, LeaseSiege, Siege};

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let choices = Choices::new(rest);
    let report = match first % 5 {
        4 => {
            AskerSiege::default().run(choices);
            return;
        }
        0 => DataSiege::default().run(choices),
        1 => LeaseSiege::new(first / 5).run(choices),
        kind => Siege::new(kind == 2).run(choices),
    };
    assert!(report.tainted <= report.tasks);
}
