//! Doors for the fuzz targets, built for them alone.

use gristmill_core::PayloadRef;
use gristmill_shm::{Record, Words};

use gristmill_wire::{FunctionId, TaskId};

use crate::bundle::Bundles;
use crate::drain::{Arrival, read_arrival};
use crate::results::{Batches, CallResult, CallValue};

/// Takes a record in; checks that nothing is larger than what was there.
pub fn arrival<W: Words>(record: &Record<'_, W>) {
    let room = record.body_size() as usize;
    match read_arrival(record) {
        Ok(Arrival::Answer(frame, payload)) => match payload.get() {
            PayloadRef::Bytes(bytes) => {
                assert_eq!(bytes.len(), frame.payload_size as usize);
                assert!(bytes.len() <= room);
            }
            PayloadRef::Block(_) => panic!("no answer names a block"),
        },
        // Each malformed byte of the text becomes a mark of three bytes.
        Ok(Arrival::Ready(text)) => assert!(text.unwrap_or_default().len() <= 3 * room),
        Ok(Arrival::Request(_, part)) => assert!(part.len() <= room),
        Ok(Arrival::ArenaAnswer(_, descriptor)) => assert!(descriptor.len() <= room),
        Ok(Arrival::Keep(offsets) | Arrival::Return(offsets)) => {
            assert!(offsets.len() * 8 <= room);
        }
        Ok(Arrival::Results) => result(record, room),
        Ok(Arrival::Wait(..)) | Err(_) => {}
    }
}

/// Takes a record in as the one result of a batch; it comes out as it went in.
fn result<W: Words>(record: &Record<'_, W>, room: usize) {
    let (batch, mut batches) = (TaskId::new(0, 0), Batches::default());
    batches.insert(batch, FunctionId(0), 1);
    let collected = batches.get_mut(batch).expect("it was inserted");
    if collected.take_in(record, &mut Bundles::default(), |_, _| None) {
        let mut results = batches.take_ready(batch).expect("one result");
        let Some(CallResult { value: CallValue::Inline(bytes), .. }) = results.take() else {
            panic!("no blocks were adopted")
        };
        assert!(bytes.len() <= room);
    }
}
