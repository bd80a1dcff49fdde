//! Messages between client, keeper and zygotes.

use crate::input::Input;
use gristmill_keeper::{Command, Header, KeeperEvent, ZYGOTE_FRAME_SIZE, ZygoteFrame};

fn decode(kind: u16, body: &[u8]) {
    if let Ok(command) = Command::decode(kind, body) {
        let (again, bytes) = command.encode();
        assert_eq!((again, bytes.as_slice()), (kind, body));
        let _ = command.check_descriptors(1);
    }
    if let Ok(event) = KeeperEvent::decode(kind, body, Vec::new()) {
        let (again, bytes) = event.encode();
        let event_again = KeeperEvent::decode(again, &bytes, Vec::new()).expect("it was encoded");
        assert_eq!(format!("{event:?}"), format!("{event_again:?}"));
    }
}

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    if let Ok((header, body)) = Header::decode(bytes) {
        assert!(header.body_in_file || header.length as usize == body.len());
        decode(header.kind, body);
    }
    let mut input = Input(bytes);
    decode(u16::from(input.byte()), input.0);
    let frame = bytes.get(..ZYGOTE_FRAME_SIZE).unwrap_or(bytes);
    if let Some(frame) = ZygoteFrame::decode(frame) {
        assert_eq!(ZygoteFrame::decode(&frame.encode()), Some(frame));
    }
}
