//! Messages of another blob server, applied to a store as a blob server does: no more bytes are taken or given than there are.

use gristmill_shm::ClientArena;
use gristmill_store::{BlobLimits, Store};
use gristmill_wire::peer::{BlobMessage, MessageKind, Messages, Piece};
use gristmill_wire::{BlobName, Digest};

/// A blob with a name that the fuzzer finds soon.
const NAME: BlobName = BlobName { digest: Digest([0; 32]), size: 16 };

/// Runs the target on one input.
pub(crate) fn run(chunk: &[u8]) {
    let arena = ClientArena::create(0).expect("an arena");
    let limits = BlobLimits { memory: 0, disk: 1 << 16, directory: std::env::temp_dir() };
    let store = Store::new(arena, limits);
    drop(store.want(NAME).expect("memory"));
    for (kind, body) in Messages::new(chunk).map_while(Result::ok) {
        if kind == MessageKind::Piece {
            Piece::read(body).map(|piece| take(&store, &piece)).unwrap_or_default();
        } else if let Ok(Some(BlobMessage::Need { name, received, .. })) =
            BlobMessage::read(kind, body)
        {
            give(&store, name.digest, received);
        }
    }
}

fn take(store: &Store, piece: &Piece<'_>) {
    let received = || store.progress(NAME.digest).map_or(NAME.size, |progress| progress.received);
    let before = received();
    let is_taken = store.append(piece.digest, piece.offset, piece.bytes);
    let expected = if is_taken { piece.bytes.len() as u64 } else { 0 };
    assert_eq!(received() - before, expected);
    assert!(received() <= NAME.size);
    if received() == NAME.size {
        // From here on the blob is on disk.
        store.complete(NAME.digest);
        assert!(store.trim().is_empty());
    }
}

fn give(store: &Store, digest: Digest, offset: u64) {
    let mut space = [0; 64];
    let count = store.read(digest, offset, &mut space).expect("the disk").unwrap_or_default();
    assert!(count as u64 <= NAME.size.saturating_sub(offset));
}
