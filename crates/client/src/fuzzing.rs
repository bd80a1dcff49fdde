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
        Ok(Arrival::Results) => results(record, room),
        Ok(Arrival::Wait(..)) | Err(_) => {}
    }
}

/// Takes a record in as the results of a batch of a few calls; they come out as they went in.
fn results<W: Words>(record: &Record<'_, W>, room: usize) {
    const CALLS: u32 = 3;
    let (batch, mut batches) = (TaskId::new(0, 0), Batches::default());
    batches.insert(batch, FunctionId(0), CALLS);
    let collected = batches.get_mut(batch).expect("it was inserted");
    let Some(intake) = collected.take_in((record, 0), &mut Bundles::default(), |_, _| None) else {
        assert!(batches.take_ready(batch).is_none(), "nothing of a damaged record is kept");
        return;
    };
    assert!(intake.count <= CALLS as usize && intake.size as usize <= room);
    let mut ready = batches.take_ready(batch).unwrap_or_default();
    let mut size = 0;
    for _ in 0..intake.count {
        let Some(CallResult { value: CallValue::Inline(bytes), .. }) = ready.take() else {
            panic!("no blocks were adopted")
        };
        size += bytes.len();
    }
    assert!(size <= room && ready.take().is_none());
}
