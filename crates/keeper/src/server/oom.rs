//! A watch on the kernel's count of processes that its out-of-memory killer ended.

use gristmill_machine::{Group, Hierarchy};
use std::fs;
use std::path::PathBuf;

/// The counter file, and the count of kills that are attributed to workers.
#[derive(Debug, Clone)]
pub(super) struct OomWatch {
    file: Option<PathBuf>,
    attributed: u64,
}

impl OomWatch {
    /// Chooses the first readable counter: that of the innermost control group that has one, else the machine's.
    pub(super) fn new() -> Self {
        for file in candidates(&gristmill_machine::memory_groups()) {
            if let Some(attributed) = read(&file) {
                return Self { file: Some(file), attributed };
            }
        }
        Self { file: None, attributed: 0 }
    }

    /// Returns the number of kills so far; 0 if there is no counter.
    pub(super) fn count(&self) -> u64 {
        self.file.as_ref().and_then(read).unwrap_or(0)
    }

    /// Attributes the kills so far to a worker that SIGKILL ended. Returns true if there are new ones since the counter
    /// was `before_start`.
    ///
    /// The kernel does not tell which process it killed. So a kill of a task's child during the worker's life is attributed
    /// to the worker too, if a later SIGKILL has another cause.
    pub(super) fn has_struck(&mut self, before_start: u64) -> bool {
        let count = self.count();
        let has_struck = count > self.attributed.max(before_start);
        self.attributed = self.attributed.max(count);
        has_struck
    }
}

/// Returns the possible counter files, the best first.
fn candidates(groups: &[Group]) -> Vec<PathBuf> {
    let counters = groups.iter().map(|group| match group.hierarchy {
        Hierarchy::Unified => group.folder.join("memory.events"),
        Hierarchy::Legacy => group.folder.join("memory.oom_control"),
    });
    counters.chain([PathBuf::from("/proc/vmstat")]).collect()
}

fn read(file: &PathBuf) -> Option<u64> {
    parse(&fs::read_to_string(file).ok()?)
}

fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_own_counter_comes_before_the_machines() {
        let group = |folder: &str, hierarchy| Group { folder: folder.into(), hierarchy };
        let groups = [
            group("/sys/fs/cgroup/unified/user", Hierarchy::Unified),
            group("/sys/fs/cgroup/memory/pool", Hierarchy::Legacy),
        ];
        let found = candidates(&groups);
        let expected = [
            "/sys/fs/cgroup/unified/user/memory.events",
            "/sys/fs/cgroup/memory/pool/memory.oom_control",
            "/proc/vmstat",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(candidates(&[]), [PathBuf::from("/proc/vmstat")]);
    }

    #[test]
    fn a_kill_before_a_workers_start_is_not_attributed_to_it() {
        let file = std::env::temp_dir().join(format!("gristmill-oom-{}", std::process::id()));
        let set = |count: u64| fs::write(&file, format!("oom_kill {count}\n")).expect("a file");
        set(1);
        let mut watch = OomWatch { file: Some(file.clone()), attributed: 1 };
        let older = watch.count();
        set(2);
        let younger = watch.count();
        assert!(!watch.clone().has_struck(younger), "it was started after the kill");
        assert!(watch.has_struck(older));
        assert!(!watch.has_struck(older), "one kill is attributed once");
        set(3);
        assert!(watch.has_struck(younger));
        fs::remove_file(&file).expect("it was made");
        assert!(!watch.has_struck(younger), "the counter is gone");
    }

    #[test]
    fn only_the_counter_of_kills_is_read() {
        assert_eq!(parse("low 0\noom 3\noom_kill 2\noom_group_kill 1\n"), Some(2));
        assert_eq!(parse("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
        assert_eq!(parse("oom_kill_disable 0\n"), None);
        assert_eq!(parse(""), None);
    }
}
