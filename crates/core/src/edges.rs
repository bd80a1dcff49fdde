//! Dependency edges: one per pair of parent and child, in two lists at once.
//!
//! A child lists its edges in the order of its arguments. A parent that is not final lists them in a ring, so that an
//! edge can be appended at the end and removed from the middle. A final parent lists none and only counts
//! (`Task::holds`).

use crate::NONE;
use crate::slab::Slab;
use crate::task::TaskTable;

#[derive(Debug)]
pub(crate) struct Edge {
    pub parent: u32,
    pub child: u32,
    /// Edge to the child's next parent.
    pub next_parent: u32,
    /// Previous edge in the parent's ring of dependants; `NONE` if the edge is not in the ring.
    previous_dependant: u32,
    next_dependant: u32,
}

impl Edge {
    /// Returns the parent's next dependant, in a ring.
    pub const fn next_dependant(&self) -> u32 {
        self.next_dependant
    }
}

/// Makes the edge from `parent` to `child` and returns it. `last` is the child's last edge; `listed` is true if the
/// parent is not final.
pub(crate) fn connect(
    tasks: &mut TaskTable,
    edges: &mut Slab<Edge>,
    (parent, child): (u32, u32),
    last: u32,
    listed: bool,
) -> u32 {
    let edge = edges.insert(Edge {
        parent,
        child,
        next_parent: NONE,
        previous_dependant: NONE,
        next_dependant: NONE,
    });
    if last == NONE {
        tasks[child].first_parent = edge;
    } else {
        edges[last].next_parent = edge;
    }
    tasks[parent].holds += 1;
    if listed {
        append(tasks, edges, parent, edge);
    }
    edge
}

fn append(tasks: &mut TaskTable, edges: &mut Slab<Edge>, parent: u32, edge: u32) {
    let first = tasks[parent].first_dependant;
    if first == NONE {
        tasks[parent].first_dependant = edge;
        edges[edge].previous_dependant = edge;
        edges[edge].next_dependant = edge;
        return;
    }
    let last = edges[first].previous_dependant;
    edges[edge].previous_dependant = last;
    edges[edge].next_dependant = first;
    edges[last].next_dependant = edge;
    edges[first].previous_dependant = edge;
}

/// Removes an edge from its parent's ring, if it is in it.
pub(crate) fn unlist(tasks: &mut TaskTable, edges: &mut Slab<Edge>, edge: u32) {
    let Edge { parent, previous_dependant, next_dependant, .. } = edges[edge];
    if next_dependant == NONE {
        return;
    }
    if next_dependant == edge {
        tasks[parent].first_dependant = NONE;
    } else {
        edges[previous_dependant].next_dependant = next_dependant;
        edges[next_dependant].previous_dependant = previous_dependant;
        if tasks[parent].first_dependant == edge {
            tasks[parent].first_dependant = next_dependant;
        }
    }
    edges[edge].previous_dependant = NONE;
    edges[edge].next_dependant = NONE;
}
