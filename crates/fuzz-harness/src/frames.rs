//! Frames of the wire: a decoded frame encodes to words that decode to the same frame.

use crate::input::Input;
use gristmill_wire::{AnswerFrame, ParentEntry, RecordHeader, TaskExtension, TaskFrame};

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (word, limit) = (input.word(), u32::from(input.short()));
    if let Ok(header) = RecordHeader::from_word(word, limit) {
        assert_eq!(header.word(), word);
        assert!((16..=limit).contains(&header.size) && header.size.is_multiple_of(8));
    }
    if let Ok(frame) = TaskFrame::from_words(input.words()) {
        assert_eq!(TaskFrame::from_words(frame.words()), Ok(frame));
    }
    if let Ok(frame) = AnswerFrame::from_words(input.words()) {
        assert_eq!(AnswerFrame::from_words(frame.words()), Ok(frame));
        let _ = (frame.claimed_before.ticks(), frame.ran.ticks(), frame.published_after.ticks());
    }
    let extension = TaskExtension::from_words(input.words());
    assert_eq!(TaskExtension::from_words(extension.words()), extension);
    let parent = ParentEntry::from_words(input.words());
    assert_eq!(ParentEntry::from_words(parent.words()), parent);
}
