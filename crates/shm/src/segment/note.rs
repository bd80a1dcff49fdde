//! A short text beside a worker's rings: the worker's current activity. It can be read while the worker runs and after
//! its death.

use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_wire::cut_text;

/// Words of text.
const WORDS: usize = 31;
/// Bytes of text.
pub(super) const TEXT_MAX: usize = WORDS * 8;
/// Mask of the low bits of the state: the size of the text, or [`BUSY`].
const SIZE_BITS: u64 = (1 << 16) - 1;
/// The size value while the text is being written.
const BUSY: u64 = SIZE_BITS;

/// A text with one writer; zeroed memory holds no text.
///
/// Source: a sequence lock (Boehm, MSPC 2012), with the size of the text in the sequence word.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Note {
    /// The number of writes, and in the low 16 bits the size of the text; size 0 means no text.
    state: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Note {
    /// Replaces the text, cut to [`TEXT_MAX`] bytes; an empty text clears it. Only the slot's worker calls it.
    pub(super) fn write(&self, text: &str) {
        let text = cut_text(text, TEXT_MAX);
        let round = (self.state.load(Ordering::Relaxed) | SIZE_BITS).wrapping_add(1);
        self.state.store(round | BUSY, Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(text.as_bytes().chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            // PAIRS: note words (`read`): a reader that sees one of these words sees that the text is being written
            word.store(u64::from_le_bytes(whole), Ordering::Release);
        }
        self.state.store(round | text.len() as u64, Ordering::Release); // PAIRS: note (`read`)
    }

    /// Returns the text, unless there is none or it is being written at this moment.
    pub(super) fn read(&self) -> Option<String> {
        let state = self.state.load(Ordering::Acquire); // PAIRS: note (`write`)
        let size = usize::try_from(state & SIZE_BITS).ok().filter(|&size| size <= TEXT_MAX)?;
        let mut bytes = Vec::with_capacity(TEXT_MAX);
        for word in &self.words[..size.div_ceil(8)] {
            // PAIRS: note words (`write`)
            bytes.extend_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        bytes.truncate(size);
        let is_whole = size > 0 && self.state.load(Ordering::Relaxed) == state;
        is_whole.then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Clears the text of a worker that is known to be dead.
    pub(super) fn reset(&self) {
        self.state.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> Note {
        Note { state: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }

    #[test]
    fn a_note_is_what_was_written_last_and_long_ones_are_cut_between_characters() {
        let note = blank();
        assert_eq!(note.read(), None);
        note.write("importing module numpy");
        assert_eq!(note.read().as_deref(), Some("importing module numpy"));
        note.write(&"ö".repeat(TEXT_MAX));
        assert_eq!(note.read(), Some("ö".repeat(TEXT_MAX / 2)));
        note.write("");
        assert_eq!(note.read(), None);
    }

    #[test]
    fn a_reader_beside_the_writer_never_sees_a_mixture() {
        let note = blank();
        let texts = ["a".repeat(TEXT_MAX), "b".repeat(9), String::new()];
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20_000).for_each(|round| note.write(&texts[round % 3])));
            for _ in 0..20_000 {
                let text = note.read();
                assert!(text.is_none_or(|text| texts.contains(&text)));
            }
        });
    }

    #[test]
    fn hostile_bytes_are_no_text() {
        let note = blank();
        note.state.store(TEXT_MAX as u64 + 1, Ordering::Relaxed);
        assert_eq!(note.read(), None);
        note.words[0].store(u64::MAX, Ordering::Relaxed);
        note.state.store(8, Ordering::Relaxed);
        assert_eq!(note.read(), Some("\u{fffd}".repeat(8)));
    }
}
