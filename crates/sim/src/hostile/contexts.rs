//! Messages of a hostile peer about contexts.

use gristmill_wire::peer::{ContextState, ContextTerms, Control, Files};
use gristmill_wire::{ContextId, Digest, ResourceRequest};

use super::choices::Choices;

/// Number of contexts that each hostile client defines before it sends anything else.
const CONTEXTS: u8 = 3;

/// Returns a context that the peer has defined, or none.
pub(super) fn context(choices: &mut Choices<'_>) -> ContextId {
    ContextId(u32::from(choices.below(2)) * u32::from(choices.below(CONTEXTS + 1)))
}

/// Defines the contexts that tasks name.
pub(super) fn define_all(out: &mut Vec<u8>) {
    (1..=CONTEXTS)
        .for_each(|id| define_context(ContextId(id.into()), (1, ResourceRequest::NONE), out));
}

fn define_context(
    context: ContextId,
    (workers_max, demand): (u16, ResourceRequest),
    out: &mut Vec<u8>,
) {
    let terms = ContextTerms {
        context,
        workers_max,
        is_fork_safe: true,
        linger_ns: 1_000_000,
        demand,
        name: b"c",
        setup: b"code",
        files: Files::Named(&[Digest([7; 32]); 2][..usize::from(workers_max % 3)]),
    };
    terms.write(out);
}

/// Writes a message that changes a context, or reports its state.
pub(super) fn speak_of_context(choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    let context = context(choices);
    if choices.is_chosen() {
        ContextState {
            context,
            workers: choices.half(),
            deployments: choices.number(),
            ..ContextState::default()
        }
        .write(out);
    } else if choices.below(16) == 0 {
        // Mostly a context that exists already, or none: the engine ends the link.
        define_context(context, (choices.byte().into(), demand(choices)), out);
    } else {
        Control::ForgetContext { context }.write(out);
        if context != ContextId(0) && choices.below(8) > 0 {
            define_context(context, (choices.byte().into(), demand(choices)), out);
        }
    }
}

/// Returns no request, or one that may exceed the available resources.
fn demand(choices: &mut Choices<'_>) -> ResourceRequest {
    if choices.is_chosen() {
        return ResourceRequest::NONE;
    }
    ResourceRequest::from_words([choices.number(), choices.number()])
}
