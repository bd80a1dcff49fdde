//! Failures between two ends before they have a link.

use gristmill_transport::ChannelError;

/// Reason why a handshake, or an attempt to start one, has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeFailure {
    /// A sentence for the user.
    pub text: String,
    /// True if every further attempt would fail, because nothing changes while both ends stay as they are.
    pub is_final: bool,
}

impl HandshakeFailure {
    /// Returns a failure that a further attempt may avoid.
    #[must_use]
    pub fn passing(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_final: false }
    }

    /// Returns a failure that every further attempt would repeat.
    #[must_use]
    pub fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_final: true }
    }

    /// Returns the failure for an error of a connection. A wrong key means that the other end is a stranger. This is final for
    /// an address that was dialled, but not for a listening address, which any stranger may connect to. A wrong version is
    /// always final, because an end tells its version only after it has proved its key.
    pub(super) fn of_channel(error: &ChannelError, has_dialled: bool) -> Self {
        match error {
            ChannelError::Version { .. } => {
                Self::lasting(format!("{error}: install the same version of gristmill on both"))
            }
            ChannelError::Unauthenticated { .. } if has_dialled => Self::lasting(format!(
                "{error}: give the client and its nodes the two keys that were made together"
            )),
            _ => Self::passing(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use gristmill_transport::{AuthFailure, Versions};

    use super::*;

    #[test]
    fn another_version_is_final_and_says_what_to_do() {
        let versions = |wire| Versions { transport: 1, wire };
        let (ours, theirs) = (versions(2), versions(3));
        let error = ChannelError::Version { peer: "n1:7".to_owned(), ours, theirs };
        let failure = HandshakeFailure::of_channel(&error, false);
        assert!(failure.is_final);
        assert_eq!(
            failure.text,
            "n1:7 uses version 1.3 of the protocol, and this process uses version 1.2: install the same version of gristmill on both"
        );
    }

    #[test]
    fn a_wrong_key_is_final_for_the_end_that_dialled_and_nothing_for_a_listener() {
        let mistrust = AuthFailure::OtherKey;
        let error = ChannelError::Unauthenticated { peer: "n1:7".to_owned(), mistrust };
        assert!(HandshakeFailure::of_channel(&error, true).is_final);
        assert!(
            !HandshakeFailure::of_channel(&error, false).is_final,
            "any stranger can come with one"
        );
    }
}
