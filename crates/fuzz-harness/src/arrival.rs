//! A record of a result ring, as the client reads it.

use crate::input::{Input, with_record};
use gristmill_client::fuzzing::arrival;
use gristmill_wire::RecordKind;

const KINDS: [RecordKind; 6] = [
    RecordKind::Answer,
    RecordKind::Ready,
    RecordKind::Request,
    RecordKind::Wait,
    RecordKind::Task,
    RecordKind::Define,
];

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = KINDS[usize::from(input.byte()) % KINDS.len()];
    let flags = input.byte();
    with_record(kind, flags, input.0, arrival);
}
