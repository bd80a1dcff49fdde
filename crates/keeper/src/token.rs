//! The token that every process of one tree carries in its environment.

use std::fmt;

/// Environment variable with the token of the tree that a process belongs to.
pub const TREE_VARIABLE: &str = "GRISTMILL_TREE";
/// Environment variable with `<slot>.<epoch>.<token>` in a worker and in the programs that it runs.
pub const WORKER_VARIABLE: &str = "GRISTMILL_WORKER";
/// Environment variable with the worker and the task that started a process: see [`TaskMark`].
pub const TASK_VARIABLE: &str = "GRISTMILL_TASK";
/// Environment variable with the process id of the keeper, for [`crate::become_worker`].
pub const KEEPER_VARIABLE: &str = "GRISTMILL_KEEPER";
/// Environment variable that a task sets to `1` for a program that must outlive the tree (`sbatch`, a container, a
/// daemon). The program and its children are then never killed. The variable takes effect at the program's exec,
/// because the kernel shows the environment that a program was started with and no later change.
pub const KEEP_VARIABLE: &str = "GRISTMILL_KEEP";

/// Length of a token in characters: 128 random bits in hexadecimal.
pub(crate) const TOKEN_LENGTH: usize = 32;

/// The name of one process tree, unique on the machine.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreeToken([u8; TOKEN_LENGTH]);

impl TreeToken {
    /// Creates a random token.
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

    /// Parses a token. Returns `None` unless the text is 32 lower-case hexadecimal digits.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; TOKEN_LENGTH] = text.try_into().ok()?;
        digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(Self(digits))
    }

    /// Returns the token as text.
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
