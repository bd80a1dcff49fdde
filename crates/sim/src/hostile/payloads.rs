//! Payloads of an engine that is besieged: their bytes, and, where it has blobs, large parts.

use std::rc::Rc;

use gristmill_client::{BlobTables, PayloadStore};
use gristmill_core::{Payload, PayloadRef};
use gristmill_wire::BlobName;
use gristmill_wire::peer::{Part, Parted};

/// All bytes that blobs have, and what they are called: each task gives some of them, by its number.
pub(super) type Contents = Rc<Vec<(BlobName, Vec<u8>)>>;

/// What a task with this number gives.
pub(super) fn content(contents: &Contents, number: u64) -> &(BlobName, Vec<u8>) {
    &contents[usize::try_from(number % contents.len() as u64).expect("it is small")]
}

/// The large parts that a worker makes of arguments: none, some of its own, or the bytes of an argument.
pub(super) fn made_of(contents: &Contents, number: u64, parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let made = |number| content(contents, number).1.clone();
    match number % 4 {
        0 => parts.first().cloned().into_iter().collect(),
        1 => vec![made(number), made(number / 4)],
        2 => Vec::new(),
        _ => vec![made(number)],
    }
}

/// What knows the bytes of payloads.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    /// None: payloads are their bytes.
    pub blobs: Option<BlobTables>,
    pub contents: Contents,
}

impl Payloads {
    /// The bytes of a payload, without large parts.
    pub fn bytes<'a>(&'a self, payload: &'a Payload) -> &'a [u8] {
        match (&self.blobs, payload.get()) {
            (Some(blobs), _) => blobs.bytes(payload),
            (None, PayloadRef::Bytes(bytes)) => bytes,
            (None, PayloadRef::Block(_)) => panic!("there are no blocks"),
        }
    }

    /// Its large parts.
    pub fn parts(&self, payload: &Payload) -> Vec<Vec<u8>> {
        self.blobs.as_ref().map(|blobs| blobs.contents(payload)).unwrap_or_default()
    }

    /// Takes in what came.
    pub fn receive(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        if let Some(blobs) = &mut self.blobs {
            return blobs.parts().take_parted(parted);
        }
        let is_here = |part: &Part<'_>| part.bytes().is_some();
        if parted.parts.iter().all(is_here) {
            Ok(Payload::copy_from(parted.bytes))
        } else {
            Err("it names what cannot be asked for here".to_owned())
        }
    }

    /// What a worker returns for arguments: the same bytes, with what it made.
    pub fn run(&mut self, bytes: &[u8], parts: &[Vec<u8>]) -> Payload {
        let mut number = [0; 8];
        number.iter_mut().zip(bytes).for_each(|(space, byte)| *space = *byte);
        match &mut self.blobs {
            None => Payload::copy_from(bytes),
            Some(blobs) => {
                let made = made_of(&self.contents, u64::from_le_bytes(number), parts);
                blobs.store(bytes, &made).expect("there is memory")
            }
        }
    }
}

impl PayloadStore for Payloads {
    fn put(&self, payload: &Payload, out: &mut Vec<u8>) {
        match &self.blobs {
            Some(blobs) => blobs.put(payload, out),
            None => Parted::put_plain(out, self.bytes(payload)),
        }
    }

    fn put_result(&self, payload: &Payload, names: &[Option<BlobName>], out: &mut Vec<u8>) {
        match &self.blobs {
            Some(blobs) => blobs.put_result(payload, names, out),
            None => self.put(payload, out),
        }
    }
}
