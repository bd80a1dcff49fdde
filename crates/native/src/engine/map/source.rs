//! The items of a map before they are submitted. One thread at a time reads them, with nothing borrowed: reading runs
//! Python code, which may re-enter the same map.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use gristmill_client::CallBatch;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::attached::Attached;

/// The iterator of the items, and the items that were read and not submitted yet.
pub(super) struct ItemSource {
    /// `None` once it is exhausted.
    pub items: Option<Py<PyIterator>>,
    /// Items in their encoded form.
    pub batch: CallBatch,
    /// Number of calls of the batch that are submitted already.
    pub submitted: usize,
    /// An item without a native form for which the engine had no room.
    pub held: Option<Py<PyAny>>,
    /// The exception that the iterator raised; it comes behind the items before it.
    pub last: Option<PyErr>,
}

impl ItemSource {
    /// Returns whether no item is left.
    pub fn is_exhausted(&self) -> bool {
        self.items.is_none()
            && self.batch.len() == self.submitted
            && self.held.is_none()
            && self.last.is_none()
    }
}

/// The holder of a map's source.
enum SourceHolder {
    /// No thread: it is free.
    Here(Box<ItemSource>),
    /// This thread, which reads items.
    With(ThreadId),
    /// No one: the source is exhausted, or the map was closed.
    Gone,
}

/// The answer to a thread that wants to read items.
pub(super) enum ReadTurn {
    /// The source: `give_back` ends the claim.
    Given(Box<ItemSource>),
    /// This same thread is reading already: the source calls it, or an item that is being pickled does.
    Own,
    /// Another thread reads. The number is the argument for `wait`.
    Other(u64),
    /// No items are left.
    Gone,
}

/// A lock that gives a map's source to one thread at a time.
pub(super) struct Reading {
    holder: Attached<SourceHolder>,
    /// Number of times that the source was given back.
    returns: Mutex<u64>,
    returned: Condvar,
}

impl Reading {
    pub fn new(items: Py<PyIterator>) -> Self {
        let source = ItemSource {
            items: Some(items),
            batch: CallBatch::default(),
            submitted: 0,
            held: None,
            last: None,
        };
        Self {
            holder: Attached::new(SourceHolder::Here(Box::new(source))),
            returns: Mutex::new(0),
            returned: Condvar::new(),
        }
    }

    /// Takes the source, if no thread has it.
    pub fn claim(&self, py: Python<'_>) -> ReadTurn {
        let this = std::thread::current().id();
        self.holder.with(py, |holder| match std::mem::replace(holder, SourceHolder::With(this)) {
            SourceHolder::Here(source) => ReadTurn::Given(source),
            SourceHolder::With(thread) => {
                *holder = SourceHolder::With(thread);
                if thread == this {
                    ReadTurn::Own
                } else {
                    ReadTurn::Other(*self.returns.lock().unwrap_or_else(PoisonError::into_inner))
                }
            }
            SourceHolder::Gone => {
                *holder = SourceHolder::Gone;
                ReadTurn::Gone
            }
        })
    }

    /// Ends a claim. If the map was closed meanwhile, returns the source, to be released where Python code may run.
    pub fn give_back(&self, py: Python<'_>, source: Box<ItemSource>) -> Option<Box<ItemSource>> {
        let rest = self.holder.with(py, |holder| match holder {
            SourceHolder::With(_) if !source.is_exhausted() => {
                *holder = SourceHolder::Here(source);
                None
            }
            _ => {
                *holder = SourceHolder::Gone;
                Some(source)
            }
        });
        *self.returns.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.returned.notify_all();
        rest
    }

    /// Ends all reading. If no thread has the source, returns it, to be released where Python code may run.
    pub fn close(&self, py: Python<'_>) -> Option<Box<ItemSource>> {
        self.holder.with(py, |holder| match std::mem::replace(holder, SourceHolder::Gone) {
            SourceHolder::Here(source) => Some(source),
            SourceHolder::With(_) | SourceHolder::Gone => None,
        })
    }

    /// Waits, without the interpreter, until the source was given back more often than `known`.
    pub fn wait(&self, known: u64, limit: Duration) {
        let returns = self.returns.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unchanged = |returns: &mut u64| *returns == known;
        drop(self.returned.wait_timeout_while(returns, limit, is_unchanged));
    }
}
