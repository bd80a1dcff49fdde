//! Whether a node may yet run tasks: which have failed for good, and how many could come.
//!
//! A node has failed for good when no worker can be started there, or when it and the client cannot work together. What it
//! says then it would say again, so it gets no other lease. When all nodes that there can be have failed, nobody will run
//! anything. Where nobody knows how many there can be, three failures in a row say so, or fewer after which no other node
//! came for a while: what is wrong is then with the program, as a rule, and not with the nodes.
//!
//! A pure state machine; it does not know which nodes are there.

/// Failures in a row, with no node in between that had a worker, after which none is hoped for.
const ROW_MAX: u32 = 3;
/// How long another node may take to come after fewer of them: more than ranks of one program are apart, nanoseconds.
const WAIT_NS: u64 = 30_000_000_000;
/// Nodes that are told of one by one.
const NAMED_MAX: usize = 3;

/// Which node is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one at that place among the addresses that are dialled.
    Dialled(usize),
    /// One that joins, by its name.
    Joining(String),
}

/// What is known of all nodes.
#[derive(Debug)]
pub struct Prospects {
    /// How many there can be; none: nobody knows.
    nodes_max: Option<usize>,
    /// Those that have failed for good: which, what it is called, and why.
    failed: Vec<(Which, String, String)>,
    row: u32,
    failed_at: u64,
}

impl Prospects {
    pub const fn new(nodes_max: Option<usize>) -> Self {
        Self { nodes_max, failed: Vec::new(), row: 0, failed_at: 0 }
    }

    /// A node has failed for good; says whether that is new.
    pub fn fail(&mut self, which: Which, name: &str, text: &str, now: u64) -> bool {
        self.row += 1;
        self.failed_at = now;
        let is_new = self.why(&which).is_none();
        self.failed.retain(|(one, ..)| *one != which);
        self.failed.push((which, name.to_owned(), text.to_owned()));
        is_new
    }

    /// A node has had workers.
    pub const fn thrive(&mut self) {
        self.row = 0;
    }

    /// Why a node gets nothing any more, if it has failed for good.
    pub fn why(&self, which: &Which) -> Option<&str> {
        self.failed.iter().find(|(one, ..)| one == which).map(|(.., text)| text.as_str())
    }

    /// Why none is hoped for any more, once that is certain; of use where no node is there.
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
        Some(format!("no node runs tasks, and there will be none: {named}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joining(name: &str) -> Which {
        Which::Joining(name.to_owned())
    }

    #[test]
    fn all_nodes_that_there_can_be_have_to_fail() {
        let mut prospects = Prospects::new(Some(2));
        assert!(prospects.fail(joining("a"), "a", "no module", 0));
        assert!(!prospects.fail(joining("a"), "a", "no module", 1), "it is known");
        assert!(!prospects.fail(joining("a"), "a", "no module", 2));
        assert_eq!(prospects.verdict(u64::MAX), None, "the other one may come");
        assert!(prospects.fail(Which::Dialled(0), "b", "no key", 3));
        let verdict = prospects.verdict(3).expect("there are only two");
        assert_eq!(verdict, "no node runs tasks, and there will be none: b: no key; a: no module");
        assert_eq!(prospects.why(&joining("a")), Some("no module"));
        assert_eq!(prospects.why(&joining("c")), None);
    }

    #[test]
    fn where_nobody_knows_how_many_there_are_three_failures_in_a_row_are_enough() {
        let mut prospects = Prospects::new(None);
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
    fn fewer_failures_are_enough_where_nobody_else_comes() {
        let mut prospects = Prospects::new(None);
        assert_eq!(prospects.verdict(u64::MAX), None, "none has come");
        prospects.fail(joining("a"), "a", "no", 5);
        assert_eq!(prospects.verdict(5 + WAIT_NS - 1), None);
        assert!(prospects.verdict(5 + WAIT_NS).is_some());
        prospects.thrive();
        assert_eq!(prospects.verdict(u64::MAX), None, "one has worked since");
    }
}
