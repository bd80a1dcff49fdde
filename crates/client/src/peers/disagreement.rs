//! Compatibility of two ends.

use gristmill_wire::WIRE_VERSION;
use gristmill_wire::peer::{Greeting, Role};

/// Returns why two ends cannot work together and what to do, or `None` if they can; `own` is this side's Python and engine.
#[must_use]
pub fn disagreement(theirs: &Greeting, wanted: Role, own: (&str, &str)) -> Option<String> {
    let (python, engine) = own;
    let who = if theirs.name.is_empty() { "the other end" } else { &theirs.name };
    if theirs.role != wanted {
        return Some(format!("{who} is a {:?}, and this end needs a {wanted:?}", theirs.role));
    }
    if theirs.wire_version != WIRE_VERSION || theirs.engine != engine {
        return Some(format!(
            "{who} has gristmill {} with messages of version {}, and this is gristmill {engine} with version \
             {WIRE_VERSION}: install the same version on both",
            theirs.engine, theirs.wire_version
        ));
    }
    (theirs.python != python).then(|| {
        format!(
            "{who} runs Python {} and this is Python {python}: functions are sent as the code of one Python version, so start both \
             with the same version",
            theirs.python
        )
    })
}
