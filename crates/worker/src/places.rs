//! The CPU slots of a task that needs several, which its record lists.

use gristmill_shm::{RingRecord, Words};
use gristmill_wire::{FrameError, ResourceGrant, SlotId, unpack_places};

/// Reads the list of slots behind a task's extension. The list begins at byte `start`, which moves to its end.
///
/// # Errors
/// [`FrameError::Truncated`] if the list is longer than its record.
pub(crate) fn read_places<W: Words>(
    record: &RingRecord<'_, W>,
    start: &mut u32,
    grant: &ResourceGrant,
) -> Result<Vec<SlotId>, FrameError> {
    let count = usize::from(grant.named_places());
    let mut places = Vec::with_capacity(count);
    for _ in 0..grant.place_words() {
        places.extend(unpack_places(record.word(*start / 8)?));
        *start += 8;
    }
    places.truncate(count);
    Ok(places)
}
