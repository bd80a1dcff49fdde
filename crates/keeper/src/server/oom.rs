//! Watches the kernel's counters of processes that its out-of-memory killer ended.

use std::fs;
use std::path::PathBuf;

/// A counter file, the word before the number, and the last value seen.
#[derive(Debug)]
pub(super) struct OomWatch {
    file: Option<PathBuf>,
    last: u64,
}

impl OomWatch {
    /// Takes the first counter that can be read: the control group's (v2, then v1), else the
    /// machine's.
    pub(super) fn new() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        for file in candidates(&groups) {
            if let Some(last) = read(&file) {
                return Self { file: Some(file), last };
            }
        }
        Self { file: None, last: 0 }
    }

    /// Whether the counter has moved since the last call that said so.
    pub(super) fn has_struck(&mut self) -> bool {
        let Some(count) = self.file.as_ref().and_then(read) else { return false };
        let moved = count > self.last;
        self.last = count;
        moved
    }
}

/// Where the counters may be, best first. Within a container the path of the group may not exist:
/// then the root's is meant.
fn candidates(groups: &str) -> Vec<PathBuf> {
    let mut unified = Vec::new();
    let mut legacy = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if controllers.is_empty() {
            unified.push(PathBuf::from(format!("/sys/fs/cgroup{path}/memory.events")));
            unified.push(PathBuf::from("/sys/fs/cgroup/memory.events"));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            legacy.push(PathBuf::from(format!("/sys/fs/cgroup/memory{path}/memory.oom_control")));
            legacy.push(PathBuf::from("/sys/fs/cgroup/memory/memory.oom_control"));
        }
    }
    unified.append(&mut legacy);
    unified.push(PathBuf::from("/proc/vmstat"));
    unified
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
        let hybrid = "5:cpu,memory:/pool/x\n0::/user\n";
        let found: Vec<_> =
            candidates(hybrid).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found.first().unwrap(), "/sys/fs/cgroup/user/memory.events");
        assert!(found.contains(&"/sys/fs/cgroup/memory/pool/x/memory.oom_control".to_owned()));
        assert_eq!(found.last().unwrap(), "/proc/vmstat");
        assert_eq!(candidates("nonsense"), [PathBuf::from("/proc/vmstat")]);
    }

    #[test]
    fn only_the_counter_of_kills_is_read() {
        assert_eq!(parse("low 0\noom 3\noom_kill 2\noom_group_kill 1\n"), Some(2));
        assert_eq!(parse("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
        assert_eq!(parse("oom_kill_disable 0\n"), None);
        assert_eq!(parse(""), None);
    }
}
