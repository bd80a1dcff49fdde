//! Two key pairs make a *fleet*: one of its client, one that all its nodes share.
//!
//! Each side has its own private key and the public key of the other side, and talks to nobody else. The client draws
//! both pairs; the nodes' half travels to each node agent as one line of text, or in a file that only its owner may read.
//! Whoever has it can be a node of this fleet, and nothing else: not its client, nor a node of another fleet. Nodes
//! cannot be told from each other by their keys.

mod base64;
mod error;
mod file;
mod text;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::SigningKey;
use zeroize::Zeroizing;

pub use error::KeyError;

/// The size of a key, private or public, bytes.
pub const KEY_SIZE: usize = 32;
/// What comes before the private key in PKCS #8, for Ed25519 (RFC 8410).
const PRIVATE_HEAD: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// What comes before the public key in a `SubjectPublicKeyInfo`, for Ed25519 (RFC 8410).
const PUBLIC_HEAD: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// The two halves of a new fleet.
#[derive(Debug, Clone)]
pub struct Fleet {
    /// Stays with the client.
    pub client: ClientKey,
    /// Goes to each node agent.
    pub node: NodeKey,
}

/// What a client proves itself with, and knows its nodes by.
#[derive(Clone)]
pub struct ClientKey(pub(crate) KeyPair);

/// What a node agent proves itself with, and knows its client by.
#[derive(Clone)]
pub struct NodeKey(pub(crate) KeyPair);

/// A private key of one's own and the public key of the other side. The private one is zeroed when it is dropped here;
/// the copy that signs is not, as the library that holds it does not.
#[derive(Clone)]
pub struct KeyPair {
    pub own: Zeroizing<[u8; KEY_SIZE]>,
    pub other: [u8; KEY_SIZE],
}

impl Fleet {
    /// Draws the keys of a new fleet.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let (client, node) = (draw()?, draw()?);
        let (client_public, node_public) = (public_of(&client), public_of(&node));
        Ok(Self {
            client: ClientKey(KeyPair { own: client, other: node_public }),
            node: NodeKey(KeyPair { own: node, other: client_public }),
        })
    }
}

/// Gives a half its text and its file.
macro_rules! half {
    ($key:ident, $name:literal) => {
        impl $key {
            /// What its text begins with.
            const NAME: &'static str = concat!("gristmill-", $name, "-");

            /// Its text, which is as secret as the key; zeroed when it is dropped.
            #[must_use]
            pub fn to_text(&self) -> Zeroizing<String> {
                self.0.to_text(Self::NAME)
            }

            /// Reads the text of a key; spaces and ends of line are no part of it.
            ///
            /// # Errors
            /// It is none, or was damaged. The error says where, and nothing of the key.
            pub fn parse(text: &str) -> Result<Self, KeyError> {
                KeyPair::parse(text, Self::NAME).map(Self)
            }

            /// Writes a new file that only its owner may read.
            ///
            /// # Errors
            /// The file exists, or the system refuses.
            pub fn write(&self, path: &Path) -> Result<(), KeyError> {
                file::write(path, &self.to_text())
            }

            /// Reads a file that only its owner may read.
            ///
            /// # Errors
            /// Others may read or write the file, it holds no such key, or the system refuses.
            pub fn read(path: &Path) -> Result<Self, KeyError> {
                let text = file::read(path)?;
                Self::parse(std::str::from_utf8(&text).map_err(|_| KeyError::prefix(Self::NAME))?)
            }
        }

        impl FromStr for $key {
            type Err = KeyError;

            fn from_str(text: &str) -> Result<Self, KeyError> {
                Self::parse(text)
            }
        }
    };
}

half!(ClientKey, "client");
half!(NodeKey, "node");

impl fmt::Debug for ClientKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientKey(secret)")
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NodeKey(secret)")
    }
}

/// The same key of one's own, with itself on the other side.
pub fn sibling(pair: &KeyPair) -> KeyPair {
    KeyPair { own: pair.own.clone(), other: public_of(&pair.own) }
}

/// What signs with a private key.
pub fn signing_key(private: &[u8; KEY_SIZE]) -> std::sync::Arc<dyn SigningKey> {
    let mut document = Zeroizing::new(Vec::with_capacity(PRIVATE_HEAD.len() + KEY_SIZE));
    document.extend_from_slice(&PRIVATE_HEAD);
    document.extend_from_slice(private);
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&document[..]));
    key.expect("any 32 bytes are a private key of Ed25519")
}

/// How a public key travels when a connection opens.
pub fn public_document(public: &[u8; KEY_SIZE]) -> Vec<u8> {
    [&PUBLIC_HEAD[..], public].concat()
}

fn draw() -> Result<Zeroizing<[u8; KEY_SIZE]>, KeyError> {
    let mut key = Zeroizing::new([0; KEY_SIZE]);
    let drawn = ring::default_provider().secure_random.fill(&mut key[..]);
    drawn.map_err(|_| KeyError::NoRandom)?;
    Ok(key)
}

fn public_of(private: &[u8; KEY_SIZE]) -> [u8; KEY_SIZE] {
    let key = signing_key(private);
    let document = key.public_key().expect("a private key of Ed25519 knows its public one");
    *document.last_chunk().expect("a public key of Ed25519 ends its document")
}

#[cfg(test)]
mod tests;
