//! The places of a wide task, as its record names them.

use gristmill_shm::{Record, Words};
use gristmill_wire::{Equipment, FrameError, SlotId, unpack_places};

/// Reads the list behind a task's extension, which begins at byte `start`, and moves that behind it.
///
/// # Errors
/// [`FrameError::Truncated`] when it is longer than its record.
#[inline]
pub(crate) fn read_places<W: Words>(
    record: &Record<'_, W>,
    start: &mut u32,
    equipment: &Equipment,
) -> Result<Vec<SlotId>, FrameError> {
    let count = usize::from(equipment.named_places());
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut places = Vec::with_capacity(count);
    for _ in 0..equipment.place_words() {
        places.extend(unpack_places(record.word(*start / 8)?));
        *start += 8;
    }
    places.truncate(count);
    Ok(places)
}
