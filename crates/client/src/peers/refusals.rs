//! Functions or contexts of another process whose definitions were not kept, with the reasons.

use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of ids that are remembered.
const REMEMBERED_MAX: usize = 1000;

/// The ids of one process that stand for nothing, oldest first.
#[derive(Debug)]
pub struct Refusals<I>(VecDeque<(I, Arc<str>)>);

impl<I> Default for Refusals<I> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<I: Copy + PartialEq> Refusals<I> {
    /// Notes why an id stands for nothing. Of too many, the oldest is forgotten.
    pub fn insert(&mut self, theirs: I, reason: Arc<str>) {
        self.remove(theirs);
        if self.0.len() == REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((theirs, reason));
    }

    /// Forgets an id, which is defined now, or is not used any more.
    pub fn remove(&mut self, theirs: I) {
        self.0.retain(|(refused, _)| *refused != theirs);
    }

    /// Returns why an id stands for nothing. Once ids have been forgotten, an unknown one may be one of these.
    pub fn reason(&self, theirs: I) -> Option<&Arc<str>> {
        let found = self.0.iter().find(|(refused, _)| *refused == theirs);
        let may_be_forgotten = self.0.len() == REMEMBERED_MAX;
        found.map(|(_, reason)| reason).or_else(|| self.latest().filter(|_| may_be_forgotten))
    }

    /// Returns the latest reason: a dependency that is missing was refused for one like it.
    pub fn latest(&self) -> Option<&Arc<str>> {
        self.0.back().map(|(_, reason)| reason)
    }
}

#[cfg(test)]
mod tests {
    use gristmill_wire::FunctionId;

    use super::*;

    #[test]
    fn each_of_several_refused_functions_has_its_reason() {
        let mut refused = Refusals::default();
        refused.insert(FunctionId(1), "one".into());
        refused.insert(FunctionId(2), "two".into());
        let reason = |id| refused.reason(FunctionId(id)).map(|reason| &**reason);
        assert_eq!([1, 2, 3].map(reason), [Some("one"), Some("two"), None]);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_a_forgotten_function_has_a_reason() {
        let mut refused = Refusals::default();
        for id in 0..5000 {
            refused.insert(FunctionId(id), "too large".into());
        }
        assert_eq!(refused.0.len(), REMEMBERED_MAX);
        assert!(refused.reason(FunctionId(0)).is_some());
    }
}
