//! Entry points of the fuzz targets. Tests compile them too, so that no change breaks them unnoticed.

use gristmill_core::PayloadRef;
use gristmill_shm::{RingRecord, Words};

use gristmill_wire::{FunctionId, TaskId};

use crate::bundle::Bundles;
use crate::drain::{ReceivedRecord, read_arrival};
use crate::results::{Batches, CallResult, CallValue};

/// Takes a record in, and checks that no result is larger than the record.
pub fn arrival<W: Words>(record: &RingRecord<'_, W>) {
    let room = record.body_size() as usize;
    match read_arrival(record) {
        Ok(ReceivedRecord::Answer(frame, payload)) => match payload.get() {
            PayloadRef::Bytes(bytes) => {
                assert_eq!(bytes.len(), frame.payload_size as usize);
                assert!(bytes.len() <= room);
            }
            PayloadRef::Block(_) => panic!("no answer names a block"),
        },
        Ok(ReceivedRecord::LargeAnswer(frame, bytes)) => {
            assert_eq!(bytes.len(), frame.payload_size as usize);
            assert!(bytes.len() <= room);
        }
        // The decoder replaces each malformed byte of the text by a mark of three bytes.
        Ok(ReceivedRecord::Ready(text)) => assert!(text.unwrap_or_default().len() <= 3 * room),
        Ok(ReceivedRecord::Request(_, part)) => assert!(part.len() <= room),
        Ok(ReceivedRecord::ArenaAnswer(_, descriptor)) => assert!(descriptor.len() <= room),
        Ok(ReceivedRecord::Keep(offsets) | ReceivedRecord::Return(offsets)) => {
            assert!(offsets.len() * 8 <= room);
        }
        Ok(ReceivedRecord::Results) => results(record, room),
        Ok(ReceivedRecord::Wait(..) | ReceivedRecord::Left) | Err(_) => {}
    }
}

/// Takes a record in as the results of a batch of a few calls, and checks that all come out and are no larger than the record.
fn results<W: Words>(record: &RingRecord<'_, W>, room: usize) {
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
