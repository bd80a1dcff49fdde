//! End of a chunk. A chunk ends after a complete message if one ends within it. Otherwise the receiver could read nothing for
//! as long as messages are added faster than they leave. The rest of a split message goes into chunks of its own, so that the
//! receiver can tell the next message from it.

use gristmill_wire::peer::Messages;

/// End of a chunk, and the rest of the message that it splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes that go into the chunk.
    pub end: usize,
    /// Bytes of the split message that go into the next chunks; 0 if no message is split.
    pub amid: usize,
}

/// Cuts a chunk of at most `size` bytes from `out`, which holds whole messages; of the first one it may hold only the last
/// `amid` bytes.
pub(super) fn cut(out: &[u8], amid: usize, size: usize) -> Cut {
    if (1..=size).contains(&amid) {
        return Cut { end: amid, amid: 0 };
    }
    if out.len() <= size {
        return Cut { end: out.len(), amid: 0 };
    }
    let (mut end, mut next) = (0, amid);
    let mut messages = Messages::new(&out[amid..]);
    while next <= size {
        end = next;
        if messages.next().is_none() {
            break;
        }
        next = out.len() - messages.left();
    }
    if end > 0 { Cut { end, amid: 0 } } else { Cut { end: size, amid: next - size } }
}

#[cfg(test)]
mod tests {
    use gristmill_wire::peer::Control;

    use super::*;

    /// Returns three messages, and the offset at which each ends.
    fn messages() -> (Vec<u8>, Vec<usize>) {
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        for text in ["one", "a longer one, which is not in one piece", "three"] {
            Control::Drain { text: text.to_owned() }.write(&mut out);
            ends.push(out.len());
        }
        (out, ends)
    }

    #[test]
    fn a_chunk_ends_behind_the_last_message_that_fits() {
        let (out, ends) = messages();
        assert_eq!(cut(&out, 0, out.len()), Cut { end: out.len(), amid: 0 });
        for size in ends[0]..ends[2] {
            let end = if size < ends[1] { ends[0] } else { ends[1] };
            assert_eq!(cut(&out, 0, size), Cut { end, amid: 0 }, "of {size} bytes");
        }
    }

    #[test]
    fn a_message_that_does_not_fit_goes_on_and_ends_a_chunk_too() {
        let (out, ends) = messages();
        let size = ends[0] - 8;
        assert_eq!(cut(&out, 0, size), Cut { end: size, amid: 8 });
        assert_eq!(cut(&out[size..], 8, 8), Cut { end: 8, amid: 0 });
        assert_eq!(cut(&out[size..], 8, out.len()), Cut { end: 8, amid: 0 }, "alone");
        let (rest, long) = (&out[ends[0]..], ends[1] - ends[0]);
        assert_eq!(cut(rest, 0, 16), Cut { end: 16, amid: long - 16 });
        assert_eq!(cut(&rest[16..], long - 16, 8), Cut { end: 8, amid: long - 24 });
    }
}
