//! A connection between two blob servers.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct End {
    /// Chunks on the way to this end, each with its time of arrival.
    pub inbox: VecDeque<(u64, Vec<u8>)>,
    /// Time at which this end learns that the wire is cut.
    pub broken_at: Option<u64>,
    pub is_gone: bool,
    /// Time at which the other end can learn that this one is gone.
    pub gone_at: Option<u64>,
    /// True if the blob server of this end knows that the other one is there.
    pub is_told: bool,
    /// True if the blob server of this end had more to send than there was room for.
    pub waits_for_room: bool,
}

/// A connection between two blob servers.
#[derive(Debug)]
pub(super) struct Wire {
    /// Leases at the ends, by the numbers of their engines (`leases`), and their nodes (`nodes`).
    pub leases: [usize; 2],
    pub nodes: [usize; 2],
    pub ends: [End; 2],
    pub opens_at: u64,
    pub is_accepted: bool,
    /// True if a machine is gone: data that is sent from now on is lost.
    pub is_cut: bool,
}
