//! The text of a key, one line: `gristmill-node-1:` or `gristmill-client-1:`, and 92 characters.
//!
//! The characters are 69 bytes in base64: the private key (32), the other side's public key (32), and the first 5 bytes of
//! SHA-256 over those two. This checksum distinguishes a damaged key from one that is refused. With 5 bytes of it, the total
//! is a multiple of 3, and base64 needs no padding.

use std::fmt;

use base64ct::Encoding;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use zeroize::Zeroizing;

use super::{KEY_SIZE, KeyError, KeyPair};

const VERSION: &str = "1:";
const CHECKSUM_SIZE: usize = 5;
const SIZE: usize = 2 * KEY_SIZE + CHECKSUM_SIZE;
const CHARACTER_COUNT: usize = SIZE / 3 * 4;

/// The characters that URLs and shells take as they are (RFC 4648, section 5). Each value has exactly one text.
type Base64 = base64ct::Base64UrlUnpadded;

impl KeyPair {
    /// Returns the text. It begins with `name`, the prefix before the version: `gristmill-node-` or `gristmill-client-`.
    pub fn to_text(&self, name: &str) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0; SIZE]);
        bytes[..KEY_SIZE].copy_from_slice(&self.own[..]);
        bytes[KEY_SIZE..2 * KEY_SIZE].copy_from_slice(&self.other);
        let checksum = checksum(&bytes[..2 * KEY_SIZE]);
        bytes[2 * KEY_SIZE..].copy_from_slice(&checksum);
        let mut characters = Zeroizing::new([0; CHARACTER_COUNT]);
        let characters = Base64::encode(&bytes[..], &mut characters[..]);
        let size = name.len() + VERSION.len() + CHARACTER_COUNT;
        let mut text = Zeroizing::new(String::with_capacity(size));
        text.push_str(name);
        text.push_str(VERSION);
        text.push_str(characters.expect("the buffer has the size of the text"));
        text
    }

    /// Reads a text that begins with `name`, as [`Self::to_text`] writes it.
    pub fn parse(text: &str, name: &'static str) -> Result<Self, KeyError> {
        let behind_name = text.strip_prefix(name).ok_or(KeyError::prefix(name))?;
        let characters = behind_name.strip_prefix(VERSION).ok_or(KeyError::UnknownVersion)?;
        let (found, expected) = (characters.len(), CHARACTER_COUNT);
        if found != expected {
            return Err(KeyError::Length { found, expected });
        }
        let mut bytes = Zeroizing::new([0; SIZE]);
        Base64::decode(characters, &mut bytes[..]).map_err(|_| KeyError::Character {
            position: name.len() + VERSION.len() + first_invalid(characters) + 1,
        })?;
        let (keys, found) = bytes.split_at(2 * KEY_SIZE);
        if found != checksum(keys) {
            return Err(KeyError::Checksum);
        }
        let mut pair = KeyPair { own: Zeroizing::new([0; KEY_SIZE]), other: [0; KEY_SIZE] };
        pair.own.copy_from_slice(&keys[..KEY_SIZE]);
        pair.other.copy_from_slice(&keys[KEY_SIZE..]);
        Ok(pair)
    }
}

/// Returns the index of the first byte that is no character of base64.
fn first_invalid(characters: &str) -> usize {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    characters.bytes().position(|byte| !is_valid(byte)).unwrap_or(0)
}

fn checksum(keys: &[u8]) -> [u8; CHECKSUM_SIZE] {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("a suite of TLS 1.3");
    let hash = suite.common.hash_provider.hash(keys);
    *hash.as_ref().first_chunk().expect("a hash of 32 bytes")
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyPair(secret)")
    }
}
