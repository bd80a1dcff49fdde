//! Errors of tasks whose messages, or whose function or context, are too large for one end of a link.

use gristmill_wire::peer::SENT_SIZE_MAX;
use gristmill_wire::{FailureKind, TaskFailure, short_name};

/// Advice for values that travel as one message.
const ADVICE: &str = "arrays and other buffers of a megabyte or more have no such limit; so use these, several smaller \
                      values, or files";
/// Advice for functions.
const FUNCTION_ADVICE: &str = "pass large data to tasks as arguments, load a large library from a file in the task, or run the \
                               task where there is more memory";
/// Advice for contexts.
pub(crate) const CONTEXT_ADVICE: &str =
    "let its setup read large data from files, not from variables that it captures";

/// A size that exceeds a limit, and what the limit is a part of, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeExcess<'a> {
    pub size: usize,
    pub limit: usize,
    /// Bytes that incomplete messages of all links take, if the limit is that of all of them.
    pub held: Option<usize>,
    pub memory: &'a str,
}

impl SizeExcess<'static> {
    /// Creates the excess of a message that is not sent to its receiver.
    pub const fn of_sent(size: usize, limit: usize) -> Self {
        Self { size, limit, held: None, memory: "its memory" }
    }
}

impl std::fmt::Display for SizeExcess<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { size, limit, held, memory } = self;
        write!(f, "it takes a message of {size} bytes")?;
        match held {
            Some(held) => write!(
                f,
                " while others that are not complete take {held}, and the limit of all is {limit}, half of {memory}"
            ),
            None if *limit >= SENT_SIZE_MAX => write!(f, ", and the limit is {limit}"),
            None => write!(f, ", and the limit is {limit}, an eighth of {memory}"),
        }
    }
}

/// Returns the exception of a task for which there is too little memory.
pub(super) fn no_memory(text: &str) -> Vec<u8> {
    TaskFailure::of_text(FailureKind::NoMemory, text).encode()
}

/// Returns the exception of a task whose arguments are too large for `receiver`, as `sizes` says.
pub(super) fn large_arguments(task: &str, receiver: &str, sizes: &str) -> Vec<u8> {
    no_memory(&format!("the arguments of {task} are too large for {receiver}: {sizes}; {ADVICE}"))
}

/// Returns the exception of a task whose result is too large; `which` says where it comes from, and for which end it is too
/// large.
pub(super) fn large_result(which: &str, excess: &SizeExcess<'_>) -> Vec<u8> {
    no_memory(&format!("the result of the task {which}: {excess}; {ADVICE}"))
}

/// Returns why a function is refused: its definition is too large for `receiver`, as `sizes` says.
pub(super) fn large_function(receiver: &str, sizes: &str) -> String {
    format!(
        "the function, or a library that it needs, is too large for {receiver}: {sizes}; {FUNCTION_ADVICE}"
    )
}

/// Returns why a context is refused: its definition is too large for `receiver`, as `sizes` says.
pub(super) fn large_context(name: Option<&str>, receiver: &str, sizes: &str) -> String {
    let context = match name {
        Some(name) => format!("context \"{}\"", short_name(name)),
        None => "the context of the task".to_owned(),
    };
    format!("{context} is too large for {receiver}: {sizes}; {CONTEXT_ADVICE}")
}
