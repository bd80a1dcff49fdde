//! The mark that every process of one tree carries in its environment.

use std::fmt;

/// Environment variable that holds the token of the tree a process belongs to.
pub const TREE_VARIABLE: &str = "GRISTMILL_TREE";
/// Environment variable that holds `<slot>.<epoch>.<token>` in a worker and in the programs that it
/// runs.
pub const WORKER_VARIABLE: &str = "GRISTMILL_WORKER";
/// Environment variable that holds the process id of the keeper, for [`crate::become_worker`].
pub const KEEPER_VARIABLE: &str = "GRISTMILL_KEEPER";
/// Environment variable by which a program that a task starts on purpose (`sbatch`, a container, a
/// daemon) asks to outlive the tree: with the value `1` it and what it starts are never killed. It
/// counts from the program's exec on, because the kernel shows the environment a program was
/// started with and not what was changed later.
pub const KEEP_VARIABLE: &str = "GRISTMILL_KEEP";

/// Characters of a token: 128 random bits in hexadecimal.
pub(crate) const TOKEN_LENGTH: usize = 32;

/// Names one tree of processes, unlike any other on the machine.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreeToken([u8; TOKEN_LENGTH]);

impl TreeToken {
    /// Draws a new token from the kernel.
    ///
    /// # Errors
    /// The kernel gave no random bytes (it is older than 3.17, or a filter forbids `getrandom`).
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0_u8; TOKEN_LENGTH / 2];
        // SAFETY: the pointer and the length describe the array, which outlives the call.
        let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if usize::try_from(count) != Ok(bytes.len()) {
            return Err(std::io::Error::last_os_error());
        }
        let mut text = [0_u8; TOKEN_LENGTH];
        for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
            pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
            pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        Ok(Self(text))
    }

    /// Takes a token from text; `None` unless it is 32 lower-case hexadecimal digits.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; TOKEN_LENGTH] = text.try_into().ok()?;
        digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(Self(digits))
    }

    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for TreeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TreeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TreeToken({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_survive_text() {
        let first = TreeToken::random().unwrap();
        assert_ne!(first, TreeToken::random().unwrap());
        assert_eq!(TreeToken::parse(first.as_str().as_bytes()), Some(first));
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
        assert_eq!(TreeToken::parse(b""), None);
        assert_eq!(TreeToken::parse(&[b'G'; TOKEN_LENGTH]), None);
        assert_eq!(TreeToken::parse(&[b'a'; TOKEN_LENGTH + 1]), None);
    }
}
