//! What goes wrong between two ends before they have a link.

use gristmill_transport::ChannelError;

/// Why a meeting, or a try to have one, came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// A sentence.
    pub text: String,
    /// No other try will do better: nothing changes while both ends are as they are.
    pub is_final: bool,
}

impl Trouble {
    /// Another try may do better.
    #[must_use]
    pub fn passing(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_final: false }
    }

    /// No other try will.
    #[must_use]
    pub fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_final: true }
    }

    /// What is wrong with a connection. Who has the wrong key is somebody else: that says something of an address which was
    /// dialled, and nothing where anybody may come. Which version it has an end says when it has proved its key.
    pub(super) fn of_channel(error: &ChannelError, has_dialled: bool) -> Self {
        match error {
            ChannelError::Version { .. } => {
                Self::lasting(format!("{error}: install the same gristmill on both"))
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
    use gristmill_transport::{Mistrust, Versions};

    use super::*;

    #[test]
    fn another_version_is_final_and_says_what_to_do() {
        let versions = |wire| Versions { transport: 1, wire };
        let (ours, theirs) = (versions(2), versions(3));
        let error = ChannelError::Version { peer: "n1:7".to_owned(), ours, theirs };
        let trouble = Trouble::of_channel(&error, false);
        assert!(trouble.is_final);
        assert_eq!(
            trouble.text,
            "n1:7 speaks version 1.3 of the protocol, and this process 1.2: install the same gristmill on both"
        );
    }

    #[test]
    fn a_wrong_key_is_final_for_whoever_dialled_and_nothing_for_whoever_listens() {
        let mistrust = Mistrust::OtherKey;
        let error = ChannelError::Unauthenticated { peer: "n1:7".to_owned(), mistrust };
        assert!(Trouble::of_channel(&error, true).is_final);
        assert!(!Trouble::of_channel(&error, false).is_final, "anybody can come with one");
    }
}
