//! Input of the transport from a peer or a file: envelopes in pieces of any size, heads of chunks, the text of a key.

use crate::input::Input;
use gristmill_transport::{
    ChunkDecoder, ChunkHead, Envelope, EnvelopeError, NodeKey, Session, SessionOptions,
};

type Chunks = Vec<(ChunkHead, Vec<u8>)>;

/// Decodes the chunks in these bytes, in pieces of this size; returns them with the error after the last one, if any.
fn decode(bytes: &[u8], piece_size: usize) -> (Chunks, Option<EnvelopeError>) {
    let (mut decoder, mut body, mut chunks) = (ChunkDecoder::default(), Vec::new(), Vec::new());
    for mut piece in bytes.chunks(piece_size) {
        while !piece.is_empty() {
            match decoder.take(piece, &mut body) {
                Ok(taken) => {
                    assert!(
                        taken.count > 0 && (taken.head.is_some() || taken.count == piece.len())
                    );
                    piece = &piece[taken.count..];
                    chunks.extend(taken.head.map(|head| (head, body.clone())));
                }
                Err(error) => {
                    assert_eq!(decoder.take(&[], &mut body), Err(error));
                    return (chunks, Some(error));
                }
            }
        }
    }
    (chunks, None)
}

/// Feeds a session with arbitrary claims of a peer.
fn claim(mut input: Input<'_>) {
    let mut session = Session::<Vec<u8>>::new(SessionOptions::default());
    while !input.is_empty() {
        let (what, number) = (input.byte(), u64::from(input.byte()));
        let sequence = if what & 16 == 0 { session.received() + number } else { input.word() };
        let head = ChunkHead { kind: what, sequence, acknowledged: number };
        let _ = match what % 4 {
            0 => session.accept(&head, input.short().into()).map(drop),
            1 => session.resume(number).map(drop),
            _ => {
                let _ = session.submit(what, vec![what; 5]);
                Ok(())
            }
        };
        let _ = session.next_outgoing();
        let kept = session.last_submitted() - session.acknowledged();
        assert_eq!(session.unacknowledged_bytes() as u64, 5 * kept);
    }
}

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let piece_size = usize::from(input.byte()) + 1;
    assert_eq!(decode(input.0, piece_size), decode(input.0, usize::MAX));
    if let Some(first) = input.0.first_chunk()
        && let Ok(envelope) = Envelope::decode(first)
    {
        assert_eq!(envelope.encode(), *first);
    }
    if let Ok(text) = std::str::from_utf8(input.0)
        && let Ok(key) = NodeKey::parse(text)
    {
        assert_eq!(*key.to_text(), text);
    }
    // Text that fails to be a key only because of its checksum.
    let _ = NodeKey::parse(&format!("gristmill-node-1:{}", String::from_utf8_lossy(input.0)));
    claim(input);
}
