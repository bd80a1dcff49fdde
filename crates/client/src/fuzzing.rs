//! Doors for the fuzz targets, built for them alone.

use gristmill_core::PayloadRef;
use gristmill_shm::{Record, Words};

use crate::drain::{Arrival, read_arrival};

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
        Ok(Arrival::Wait(..)) | Err(_) => {}
    }
}
