//! State of a Python object that the interpreter's lock guards.

use std::cell::RefCell;

use pyo3::Python;

/// State that is accessed only with the interpreter held.
pub struct Attached<T>(RefCell<T>);

// SAFETY: every access goes through `with` or `try_with`, which require proof that the interpreter is held; it is never
// released inside.
unsafe impl<T: Send> Sync for Attached<T> {}

impl<T: Default> Default for Attached<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Attached<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Passes the value to `body`, which must run no Python code.
    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }

    /// Passes the value to `body`, unless it is in use further up the stack.
    pub fn try_with<R>(&self, _py: Python<'_>, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_borrow_mut().ok().map(|mut value| body(&mut value))
    }
}
