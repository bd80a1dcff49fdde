//! A record of a result ring as the client takes it in.
#![no_main]

use gristmill_client::fuzzing::arrival;
use gristmill_fuzz::{Input, with_record};
use gristmill_wire::Kind;
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 6] =
    [Kind::Answer, Kind::Ready, Kind::Request, Kind::Wait, Kind::Task, Kind::Define];

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let kind = KINDS[usize::from(input.byte()) % KINDS.len()];
    let flags = input.byte();
    with_record(kind, flags, input.0, arrival);
});
