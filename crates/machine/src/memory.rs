//! The total, usable and available memory.

use crate::{Group, Hierarchy, Machine};
use std::path::Path;

/// Memory sizes, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// Memory of the machine.
    pub machine: u64,
    /// Memory that this process and its children may use: the machine's memory or the smallest limit of a control
    /// group.
    pub usable: u64,
}

impl Machine {
    /// Reads the memory sizes. If `/proc/meminfo` cannot be read, the machine counts as having 1 GiB.
    #[must_use]
    pub fn memory(&self) -> MachineMemory {
        let machine = self.meminfo("MemTotal:").unwrap_or(1 << 30);
        let groups = self.memory_groups();
        let limits = groups.iter().filter_map(|group| self.limit_of(group));
        MachineMemory { machine, usable: limits.fold(machine, u64::min) }
    }

    /// Returns the bytes that can still be allocated before the kernel has to kill a process: the minimum of the memory
    /// that the machine has available and the headroom of each of `groups`. Cached files count as available.
    #[must_use]
    pub fn available_memory(&self, groups: &[Group]) -> u64 {
        let available = self.meminfo("MemAvailable:").unwrap_or(u64::MAX);
        groups.iter().filter_map(|group| self.left_in(group)).fold(available, u64::min)
    }

    fn meminfo(&self, name: &str) -> Option<u64> {
        let text = self.read(Path::new("/proc/meminfo"))?;
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    }

    /// Returns the smallest limit that a group sets. `memory.high` counts as a limit: above it the kernel throttles the
    /// group until its use falls. In version 1 the kernel reports the limit of the hidden parent groups too.
    fn limit_of(&self, group: &Group) -> Option<u64> {
        let number = |name: &str| self.read_number(&group.folder.join(name));
        match group.hierarchy {
            Hierarchy::Unified => {
                [number("memory.max"), number("memory.high")].into_iter().flatten().min()
            }
            Hierarchy::Legacy => {
                let above = self.statistic(group, "hierarchical_memory_limit");
                [number("memory.limit_in_bytes"), above].into_iter().flatten().min()
            }
        }
    }

    /// Returns the bytes that a group may still charge; `None` if it has no limit or does not report its use.
    fn left_in(&self, group: &Group) -> Option<u64> {
        let (usage, inactive, active) = match group.hierarchy {
            Hierarchy::Unified => ("memory.current", "inactive_file", "active_file"),
            Hierarchy::Legacy => {
                ("memory.usage_in_bytes", "total_inactive_file", "total_active_file")
            }
        };
        let limit = self.limit_of(group)?;
        let used = self.read_number(&group.folder.join(usage))?;
        let cached = [inactive, active].iter().filter_map(|name| self.statistic(group, name)).sum();
        Some(limit.saturating_sub(used.saturating_sub(cached)))
    }

    fn statistic(&self, group: &Group, name: &str) -> Option<u64> {
        let text = self.read(&group.folder.join("memory.stat"))?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(found, _)| *found == name)?.1.trim().parse().ok()
    }
}
