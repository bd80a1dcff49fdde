//! Definitions that functions share: bytes that several functions need travel once, named by their digest.
//!
//! An engine reads only the head of a definition; the rest is for the interpreter of a worker. The head of a dependency is its
//! digest, that of a function names the digests of what it needs. All other definitions name nothing.

use crate::Digest;

/// First byte of a dependency's definition.
const DEPENDENCY: u8 = b'L';
/// First byte of a function's definition that names dependencies.
const NEEDING: u8 = b'D';
const DIGEST_SIZE: usize = 32;

/// The head of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionHead<'a> {
    /// Bytes that functions need: `L`, the digest, the content. No task calls it.
    Dependency {
        /// The digest that functions name.
        digest: Digest,
        /// The bytes that have this digest, if the sender is right.
        content: &'a [u8],
    },
    /// A function that needs dependencies: `D`, their number as two bytes (little-endian), their digests, and the function's
    /// own definition. The bytes here are those of the digests.
    Needing(&'a [u8]),
    /// Any other definition.
    Plain,
}

impl<'a> DefinitionHead<'a> {
    /// Reads the head of a definition. Bytes that end within a head are a definition without one.
    #[must_use]
    pub fn read(definition: &'a [u8]) -> Self {
        match definition.split_first() {
            Some((&DEPENDENCY, rest)) => match rest.split_first_chunk::<DIGEST_SIZE>() {
                Some((digest, content)) => Self::Dependency { digest: Digest(*digest), content },
                None => Self::Plain,
            },
            Some((&NEEDING, rest)) => needed(rest).map_or(Self::Plain, Self::Needing),
            _ => Self::Plain,
        }
    }

    /// Returns the digests of the dependencies that a function needs, in the order in which they are loaded.
    pub fn needs(self) -> impl Iterator<Item = Digest> + 'a {
        let digests = if let Self::Needing(digests) = self { digests } else { &[] };
        digests.as_chunks().0.iter().map(|digest| Digest(*digest))
    }
}

fn needed(rest: &[u8]) -> Option<&[u8]> {
    let (count, rest) = rest.split_first_chunk()?;
    rest.get(..usize::from(u16::from_le_bytes(*count)) * DIGEST_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_its_digest_and_its_content() {
        let definition = [&b"L"[..], &[7; 32], b"bytes"].concat();
        let head = DefinitionHead::read(&definition);
        assert_eq!(head, DefinitionHead::Dependency { digest: Digest([7; 32]), content: b"bytes" });
        assert_eq!(head.needs().count(), 0);
    }

    #[test]
    fn a_function_names_what_it_needs_in_order() {
        let definition = [&b"D\x02\x00"[..], &[1; 32], &[2; 32], b"Vpickle"].concat();
        let needs: Vec<_> = DefinitionHead::read(&definition).needs().collect();
        assert_eq!(needs, [Digest([1; 32]), Digest([2; 32])]);
    }

    #[test]
    fn bytes_that_end_within_a_head_name_nothing() {
        let whole = [&b"D\x02\x00"[..], &[1; 64]].concat();
        for definition in (0..whole.len()).map(|size| &whole[..size]).chain([&b"L7"[..], b"Vp"]) {
            assert_eq!(DefinitionHead::read(definition), DefinitionHead::Plain);
        }
        assert_eq!(DefinitionHead::read(&whole).needs().count(), 2);
    }
}
