//! The CPUs that this process may use.

use crate::groups::Controller;
use crate::{Group, Hierarchy, Machine};
use std::path::Path;

/// Numbers of CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineCpus {
    /// CPUs in the affinity mask of the calling thread; at least 1.
    pub allowed: usize,
    /// Smallest quota of a control group, in CPUs: 1.5 is 150 ms of CPU time in 100 ms. `None` means no quota.
    pub quota: Option<f64>,
}

impl MachineCpus {
    /// Returns the number of CPUs that can be kept busy: those in the affinity mask, reduced by the quota (rounded down,
    /// at least 1).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    pub fn usable(&self) -> usize {
        let whole = self.quota.map_or(usize::MAX, |quota| quota as usize);
        self.allowed.min(whole).max(1)
    }
}

impl Machine {
    /// Reads the numbers of CPUs.
    #[must_use]
    pub fn cpus(&self) -> MachineCpus {
        let allowed = self.allowed_cpus().unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        let groups = self.groups(Controller::Cpu);
        let quotas = groups.iter().filter_map(|group| self.quota_of(group));
        MachineCpus { allowed, quota: quotas.min_by(f64::total_cmp) }
    }

    /// Returns the number of CPUs in the affinity mask; `None` if the file does not state at least one.
    fn allowed_cpus(&self) -> Option<usize> {
        let text = self.read(Path::new("/proc/thread-self/status"))?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        count_listed(list.trim()).filter(|count| *count > 0)
    }

    /// Returns the quota that a group sets, in CPUs.
    fn quota_of(&self, group: &Group) -> Option<f64> {
        let (quota, period) = match group.hierarchy {
            Hierarchy::Unified => {
                let text = self.read(&group.folder.join("cpu.max"))?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
            // If there is no quota, the file holds -1. This is no unsigned number, so the result is `None`.
            Hierarchy::Legacy => (
                self.read_number(&group.folder.join("cpu.cfs_quota_us"))?,
                self.read_number(&group.folder.join("cpu.cfs_period_us"))?,
            ),
        };
        ratio(quota, period)
    }
}

/// Returns the quota in CPUs; `None` if the period is zero, as no kernel reports.
#[expect(clippy::cast_precision_loss, reason = "the kernel allows at most a second as period")]
fn ratio(quota_us: u64, period_us: u64) -> Option<f64> {
    (period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// Returns how many CPUs a list such as `0-3,8` names; `None` if the list is malformed.
fn count_listed(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        for (list, count) in [("0", 1), ("0-3", 4), ("0-1,4,8-11", 7), ("1023", 1)] {
            assert_eq!(count_listed(list), Some(count), "{list}");
        }
        for list in ["", "3-1", "a", "1,", "-1", "0-18446744073709551615"] {
            assert_eq!(count_listed(list), None, "{list}");
        }
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_a_panic(list in "[0-9,-]{0,60}") {
            let _ = count_listed(&list);
        }
    }
}
