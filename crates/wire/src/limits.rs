//! Limits that appear in decoding errors.

/// The largest number of results of other tasks that the arguments of one task name:
/// [`TaskFrame::parent_count`](crate::TaskFrame::parent_count) has 24 bits.
pub const PARENTS_MAX: u32 = (1 << 24) - 1;
