//! Payloads of a besieged engine: their bytes and, if it has blobs, their large parts.

use std::rc::Rc;

use gristmill_client::{BlobTables, PayloadStore};
use gristmill_core::{Payload, PayloadRef};
use gristmill_wire::BlobName;
use gristmill_wire::peer::{Part, Parted};

/// Names and bytes of all blobs; each task returns some of them, by its number.
pub(super) type Contents = Rc<Vec<(BlobName, Vec<u8>)>>;

/// Returns the blob that a task with this number returns.
pub(super) fn content(contents: &Contents, number: u64) -> &(BlobName, Vec<u8>) {
    &contents[usize::try_from(number % contents.len() as u64).expect("it is small")]
}

/// Returns the large parts that a worker makes from arguments: none, some of its own, or the bytes of an argument.
pub(super) fn made_of(contents: &Contents, number: u64, parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let made = |number| content(contents, number).1.clone();
    match number % 4 {
        0 => parts.first().cloned().into_iter().collect(),
        1 => vec![made(number), made(number / 4)],
        2 => Vec::new(),
        _ => vec![made(number)],
    }
}

/// Store of payloads.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    /// Blob tables, or `None` if payloads consist of their bytes only.
    pub blobs: Option<BlobTables>,
    pub contents: Contents,
}

impl Payloads {
    /// Returns the bytes of a payload, without large parts.
    pub fn bytes<'a>(&'a self, payload: &'a Payload) -> &'a [u8] {
        match (&self.blobs, payload.get()) {
            (Some(blobs), _) => blobs.bytes(payload),
            (None, PayloadRef::Bytes(bytes)) => bytes,
            (None, PayloadRef::Block(_)) => panic!("there are no blocks"),
        }
    }

    /// Returns the large parts of a payload.
    pub fn parts(&self, payload: &Payload) -> Vec<Vec<u8>> {
        self.blobs.as_ref().map(|blobs| blobs.contents(payload)).unwrap_or_default()
    }

    /// Stores a received payload.
    pub fn receive(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        if let Some(blobs) = &mut self.blobs {
            return blobs.parts().take_parted(parted);
        }
        let is_here = |part: &Part<'_>| part.bytes().is_some();
        if parted.parts.iter().all(is_here) {
            Ok(Payload::copy_from(parted.bytes))
        } else {
            Err("it names blobs, which this end may not request".to_owned())
        }
    }

    /// Returns the result of a worker for arguments: the same bytes, with the parts that it makes.
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

    fn put_size(&self, payload: &Payload) -> usize {
        match &self.blobs {
            Some(blobs) => blobs.put_size(payload),
            None => Parted::written_size(self.bytes(payload).len(), std::iter::empty()),
        }
    }

    fn result_size(&self, payload: &Payload, names: &[Option<BlobName>]) -> usize {
        match &self.blobs {
            Some(blobs) => blobs.result_size(payload, names),
            None => self.put_size(payload),
        }
    }
}
