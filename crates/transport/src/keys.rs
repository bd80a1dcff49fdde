//! The keys of a *fleet*: one key pair of its client, and one that all its nodes share.
//!
//! Each side has its own private key and the public key of the other side, and accepts only that peer. The client generates
//! both pairs. The nodes' half travels to each node agent as one line of text, or in a file that only its owner may read. The
//! holder of that half can act as a node of this fleet, but not as its client or as a node of another fleet. The keys do not
//! distinguish one node from another.

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
/// The bytes in front of the private key in PKCS #8, for Ed25519 (RFC 8410).
const PRIVATE_HEAD: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// The bytes in front of the public key in a `SubjectPublicKeyInfo`, for Ed25519 (RFC 8410).
const PUBLIC_HEAD: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// The two halves of a new fleet.
#[derive(Debug, Clone)]
pub struct FleetKeys {
    /// The half that stays with the client.
    pub client: ClientKey,
    /// The half that goes to each node agent.
    pub node: NodeKey,
}

/// The key with which a client proves its identity and recognizes its nodes.
#[derive(Clone)]
pub struct ClientKey(pub(crate) KeyPair);

/// The key with which a node agent proves its identity and recognizes its client.
#[derive(Clone)]
pub struct NodeKey(pub(crate) KeyPair);

/// The private key of one side and the public key of the other. The private key here is zeroed on drop; the TLS library does
/// not zero its copy, which signs.
#[derive(Clone)]
pub struct KeyPair {
    pub own: Zeroizing<[u8; KEY_SIZE]>,
    pub other: [u8; KEY_SIZE],
}

impl FleetKeys {
    /// Generates the keys of a new fleet.
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

/// Defines the text and the file of one half.
macro_rules! half {
    ($key:ident, $name:literal) => {
        impl $key {
            /// The prefix of its text.
            const NAME: &'static str = concat!("gristmill-", $name, "-");

            /// Returns the key as text, which is as secret as the key and is zeroed on drop.
            #[must_use]
            pub fn to_text(&self) -> Zeroizing<String> {
                self.0.to_text(Self::NAME)
            }

            /// Reads the text of a key. The text may not contain spaces or line ends.
            ///
            /// # Errors
            /// The text is not a key, or was damaged. The error says where, but reveals nothing of the key.
            pub fn parse(text: &str) -> Result<Self, KeyError> {
                KeyPair::parse(text, Self::NAME).map(Self)
            }

            /// Writes the key to a new file that only its owner may read.
            ///
            /// # Errors
            /// The file exists, or the system refuses.
            pub fn write(&self, path: &Path) -> Result<(), KeyError> {
                file::write(path, &self.to_text())
            }

            /// Reads a key from a file that only its owner may access.
            ///
            /// # Errors
            /// Others may access the file, it holds no such key, or the system refuses.
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

/// Returns the pair for connections between nodes: all nodes of a fleet share one private key, so each node expects the
/// public key that belongs to it.
pub fn sibling(pair: &KeyPair) -> KeyPair {
    KeyPair { own: pair.own.clone(), other: public_of(&pair.own) }
}

/// Returns the signer of a private key.
pub fn signing_key(private: &[u8; KEY_SIZE]) -> std::sync::Arc<dyn SigningKey> {
    let mut document = Zeroizing::new(Vec::with_capacity(PRIVATE_HEAD.len() + KEY_SIZE));
    document.extend_from_slice(&PRIVATE_HEAD);
    document.extend_from_slice(private);
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&document[..]));
    key.expect("any 32 bytes are a private key of Ed25519")
}

/// Returns a public key in the format in which it travels when a connection opens.
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
