//! A key as one line of text: `gristmill-node-1:` or `gristmill-client-1:`, and 92 characters.
//!
//! The characters are 69 bytes in base64: the private key (32), the other side's public key (32), and the first 5 bytes
//! of SHA-256 over those two, which tell a damaged key from one that is refused. Five, because they fill the last group.

use std::fmt;

use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use zeroize::Zeroizing;

use super::{KEY_SIZE, KeyError, KeyPair, base64};

const VERSION: &str = "1:";
const CHECKSUM_SIZE: usize = 5;
const SIZE: usize = 2 * KEY_SIZE + CHECKSUM_SIZE;
const CHARACTER_COUNT: usize = SIZE / 3 * 4;

impl KeyPair {
    /// Its text, which begins with `name`.
    pub fn to_text(&self, name: &str) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(SIZE));
        bytes.extend_from_slice(&self.own[..]);
        bytes.extend_from_slice(&self.other);
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        let size = name.len() + VERSION.len() + CHARACTER_COUNT;
        let mut text = Zeroizing::new(String::with_capacity(size));
        text.push_str(name);
        text.push_str(VERSION);
        base64::encode(&bytes, &mut text);
        text
    }

    /// Reads a text that begins with `name`.
    pub fn parse(text: &str, name: &'static str) -> Result<Self, KeyError> {
        let behind_name = text.strip_prefix(name).ok_or(KeyError::prefix(name))?;
        let characters = behind_name.strip_prefix(VERSION).ok_or(KeyError::UnknownVersion)?;
        let (found, expected) = (characters.len(), CHARACTER_COUNT);
        if found != expected {
            return Err(KeyError::Length { found, expected });
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(SIZE));
        let place = |index: usize| name.len() + VERSION.len() + index + 1;
        base64::decode(characters.as_bytes(), &mut bytes)
            .map_err(|index| KeyError::Character { position: place(index) })?;
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
