//! The end of a process's standard error.

/// Size of the standard error that is kept for an exit notice, bytes: some fifty lines, a long traceback.
pub(super) const TAIL_LIMIT: usize = 4 << 10;

/// The end of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    /// True if text before `bytes` was dropped.
    cut: bool,
}

impl Tail {
    /// Appends text.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 4 * TAIL_LIMIT {
            self.shorten();
        }
    }

    /// Returns the last whole lines within [`TAIL_LIMIT`], or the end of the last line if that line alone is longer.
    pub(super) fn take(mut self) -> Vec<u8> {
        self.shorten();
        if self.cut
            && let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n')
            && end + 1 < self.bytes.len()
        {
            self.bytes.drain(..=end);
        }
        self.bytes
    }

    fn shorten(&mut self) {
        let excess = self.bytes.len().saturating_sub(TAIL_LIMIT);
        self.cut |= excess > 0;
        self.bytes.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut tail = Tail::default();
        tail.push(b"one\n");
        tail.push(b"two without end");
        assert_eq!(tail.take(), b"one\ntwo without end");
    }

    #[test]
    fn a_long_stream_ends_with_its_last_whole_lines() {
        let mut tail = Tail::default();
        for number in 0..10_000 {
            tail.push(format!("line {number:05}\n").as_bytes());
        }
        let text = String::from_utf8(tail.take()).unwrap();
        assert!(text.len() <= TAIL_LIMIT && text.len() > TAIL_LIMIT - 12);
        assert!(text.starts_with("line 0") && text.ends_with("line 09999\n"));
    }

    #[test]
    fn one_endless_line_is_cut_in_front() {
        let mut tail = Tail::default();
        tail.push(&[b'x'; 100_000]);
        assert_eq!(tail.take(), vec![b'x'; TAIL_LIMIT]);
    }
}
