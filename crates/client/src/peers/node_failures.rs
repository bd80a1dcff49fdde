//! Nodes that have failed for good, and the decision whether any node may yet run tasks.
//!
//! A node has failed for good when no worker can be started there, or when it and the client cannot work together. It would
//! fail again in the same way, so it gets no other lease. When all possible nodes have failed, no task will run. If their
//! number is not known, three failures in a row decide, or fewer failures after which no other node came for a while: the cause
//! is then, as a rule, the program and not the nodes.
//!
//! A pure state machine; it does not know which nodes are there.

use gristmill_wire::cut_text;

/// Failures in a row, without a node that had a worker in between, after which no node is expected to run tasks.
const ROW_MAX: u32 = 3;
/// Time that another node may take to come after fewer failures, nanoseconds: more than ranks of one program are apart.
const WAIT_NS: u64 = 30_000_000_000;
/// Number of failed nodes that are kept where the number of nodes is not known. A node that was forgotten gets another lease,
/// and fails again.
const FAILED_MAX: usize = 1000;
/// Largest reason that is kept, bytes.
const TEXT_SIZE_MAX: usize = 4 << 10;
/// Number of failed nodes that a verdict names one by one.
const NAMED_MAX: usize = 3;

/// Identity of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRef {
    /// The node at this index among the addresses that are dialled.
    Dialled(usize),
    /// A node that joins, by its name.
    Joining(String),
}

/// Record of the failures of all nodes.
#[derive(Debug)]
pub struct NodeFailures {
    /// Maximum number of nodes; `None` if it is not known.
    nodes_max: Option<usize>,
    /// Nodes that have failed for good: identity, name and reason.
    failed: Vec<(NodeRef, String, String)>,
    row: u32,
    failed_at: u64,
}

impl NodeFailures {
    pub const fn new(nodes_max: Option<usize>) -> Self {
        Self { nodes_max, failed: Vec::new(), row: 0, failed_at: 0 }
    }

    /// Records that a node has failed for good; returns true if that is new.
    pub fn fail(&mut self, which: NodeRef, name: &str, text: &str, now: u64) -> bool {
        self.row += 1;
        self.failed_at = now;
        let is_new = self.why(&which).is_none();
        self.failed.retain(|(one, ..)| *one != which);
        self.failed.push((which, name.to_owned(), cut_text(text, TEXT_SIZE_MAX).to_owned()));
        if self.failed.len() > self.nodes_max.unwrap_or(0).max(FAILED_MAX) {
            self.failed.remove(0);
        }
        is_new
    }

    /// Records that a node has had workers.
    pub const fn thrive(&mut self) {
        self.row = 0;
    }

    /// Returns why a node gets no lease any more, if it has failed for good.
    pub fn why(&self, which: &NodeRef) -> Option<&str> {
        self.failed.iter().find(|(one, ..)| one == which).map(|(.., text)| text.as_str())
    }

    /// Returns why no node is expected to run tasks any more, once that is certain. It holds only if no node is there.
    pub fn verdict(&self, now: u64) -> Option<String> {
        let is_hopeless = match self.nodes_max {
            Some(count) => self.failed.len() >= count,
            None => {
                self.row >= ROW_MAX || self.row > 0 && now >= self.failed_at.saturating_add(WAIT_NS)
            }
        };
        if !is_hopeless || self.failed.is_empty() {
            return None;
        }
        let count = self.failed.len();
        let last = self.failed.iter().rev().take(NAMED_MAX);
        let named: Vec<_> = last.map(|(_, name, text)| format!("{name}: {text}")).collect();
        let more = match count.saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let named = named.join("; ");
        Some(format!("{named}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joining(name: &str) -> NodeRef {
        NodeRef::Joining(name.to_owned())
    }

    #[test]
    fn all_nodes_that_there_can_be_have_to_fail() {
        let mut prospects = NodeFailures::new(Some(2));
        assert!(prospects.fail(joining("a"), "a", "no module", 0));
        assert!(!prospects.fail(joining("a"), "a", "no module", 1), "it is known");
        assert!(!prospects.fail(joining("a"), "a", "no module", 2));
        assert_eq!(prospects.verdict(u64::MAX), None, "the other one may come");
        assert!(prospects.fail(NodeRef::Dialled(0), "b", "no key", 3));
        let verdict = prospects.verdict(3).expect("there are only two");
        assert_eq!(verdict, "b: no key; a: no module");
        assert_eq!(prospects.why(&joining("a")), Some("no module"));
        assert_eq!(prospects.why(&joining("c")), None);
    }

    #[test]
    fn failed_nodes_are_bounded_in_number_and_in_bytes() {
        for (nodes_max, kept) in [(None, FAILED_MAX), (Some(2 * FAILED_MAX), 2 * FAILED_MAX)] {
            let mut prospects = NodeFailures::new(nodes_max);
            for number in 0..2 * FAILED_MAX {
                prospects.fail(
                    joining(&number.to_string()),
                    "a node",
                    &"ö".repeat(TEXT_SIZE_MAX),
                    0,
                );
            }
            assert_eq!(prospects.failed.len(), kept);
            assert!(prospects.failed.iter().all(|(.., text)| text.len() == TEXT_SIZE_MAX));
            assert!(prospects.verdict(0).is_some());
        }
    }

    #[test]
    fn without_a_known_number_of_nodes_three_failures_in_a_row_are_enough() {
        let mut prospects = NodeFailures::new(None);
        prospects.fail(joining("a"), "a", "no", 0);
        prospects.fail(joining("b"), "b", "no", 0);
        prospects.thrive();
        prospects.fail(joining("c"), "c", "no", 0);
        prospects.fail(joining("d"), "d", "no", 0);
        assert_eq!(prospects.verdict(0), None);
        prospects.fail(joining("a"), "a", "no", 0);
        let verdict = prospects.verdict(0).expect("three in a row");
        assert!(verdict.ends_with("a: no; d: no; c: no; and 1 more"), "{verdict}");
    }

    #[test]
    fn fewer_failures_are_enough_where_no_other_node_comes() {
        let mut prospects = NodeFailures::new(None);
        assert_eq!(prospects.verdict(u64::MAX), None, "none has come");
        prospects.fail(joining("a"), "a", "no", 5);
        assert_eq!(prospects.verdict(5 + WAIT_NS - 1), None);
        assert!(prospects.verdict(5 + WAIT_NS).is_some());
        prospects.thrive();
        assert_eq!(prospects.verdict(u64::MAX), None, "one has worked since");
    }
}
