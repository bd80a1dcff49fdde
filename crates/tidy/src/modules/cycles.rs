//! Circles in the module graph.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Reference;

/// Returns the groups of modules that all reach one another. Each group has two modules at least.
#[must_use]
pub fn cycles(references: &[Reference]) -> Vec<BTreeSet<&str>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for reference in references {
        next.entry(&reference.from).or_default().insert(&reference.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|from| (*from, reach(&next, from))).collect();
    let mut groups = BTreeSet::new();
    for (from, targets) in &reached {
        if targets.contains(from) {
            let is_mutual = |to: &&&str| reached.get(**to).is_some_and(|back| back.contains(from));
            groups.insert(targets.iter().filter(is_mutual).copied().collect::<BTreeSet<_>>());
        }
    }
    groups.into_iter().collect()
}

/// Returns the modules that paths lead to from `start`, in one step or more.
fn reach<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, start: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        for &to in next.get(at).into_iter().flatten() {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}
