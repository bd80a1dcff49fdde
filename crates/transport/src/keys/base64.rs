//! Base64 for URLs and shells (RFC 4648, section 5), without padding, for whole groups only: 3 bytes are 4 characters.
//!
//! Strict: one text for each value. It does not run in constant time; keys are written and read when a fleet is made,
//! by processes that hold them anyway.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends the text of `bytes`, whose count is a multiple of 3.
pub fn encode(bytes: &[u8], text: &mut String) {
    assert!(bytes.len().is_multiple_of(3), "{} bytes are no whole groups", bytes.len());
    for group in bytes.chunks_exact(3) {
        let word = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for shift in [18, 12, 6, 0] {
            text.push(char::from(ALPHABET[(word >> shift & 63) as usize]));
        }
    }
}

/// Appends the bytes of a text that has a multiple of 4 characters; at the first character that is in no text, its place.
pub fn decode(text: &[u8], bytes: &mut Vec<u8>) -> Result<(), usize> {
    for (group_index, group) in text.chunks_exact(4).enumerate() {
        let mut word = 0_u32;
        for (index, character) in group.iter().enumerate() {
            let value = value_of(*character).ok_or(group_index * 4 + index)?;
            word = word << 6 | u32::from(value);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..]);
    }
    Ok(())
}

fn value_of(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_texts() {
        for (bytes, text) in [(&b"foobar"[..], "Zm9vYmFy"), (b"\xfb\xff\xbf", "-_-_"), (b"", "")] {
            let (mut found, mut back) = (String::new(), Vec::new());
            encode(bytes, &mut found);
            assert_eq!(found, text);
            decode(text.as_bytes(), &mut back).unwrap();
            assert_eq!(back, bytes);
        }
        assert_eq!(decode(b"Zm9v+mFy", &mut Vec::new()), Err(4));
    }

    proptest! {
        #[test]
        fn bytes_survive_text(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            bytes.truncate(bytes.len() / 3 * 3);
            let (mut text, mut back) = (String::new(), Vec::new());
            encode(&bytes, &mut text);
            prop_assert_eq!(text.len(), bytes.len() / 3 * 4);
            decode(text.as_bytes(), &mut back).unwrap();
            prop_assert_eq!(back, bytes);
        }
    }
}
