//! Tests of the memory and CPU limits on trees of plain files: the smallest limit counts, in both versions of control
//! groups and in hybrid setups.
#![expect(clippy::unwrap_used, reason = "tests")]

use gristmill_machine::{Machine, MachineCpus, ProcessLimits};
use std::fs;
use std::path::PathBuf;

const GIB: u64 = 1 << 30;
const UNIFIED: &str = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const LEGACY: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
const LEGACY_CPU: &str =
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
const HYBRID: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

/// A tree of plain files that is removed at the end of the test.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, own: &str, mounts: &str) -> Self {
        let folder = format!("gristmill-machine-{}-{name}", std::process::id());
        let tree = Self(std::env::temp_dir().join(folder));
        tree.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
        tree.write("proc/thread-self/status", "Name: x\nCpus_allowed_list:\t0-3,8-11\n");
        tree.write("proc/self/cgroup", own);
        tree.write("proc/self/mountinfo", mounts);
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn usable(&self) -> u64 {
        let memory = Machine::at(&self.0).memory();
        assert_eq!(memory.machine, 16 * GIB);
        memory.usable
    }

    fn cpus(&self) -> MachineCpus {
        Machine::at(&self.0).cpus()
    }

    fn available(&self) -> u64 {
        let machine = Machine::at(&self.0);
        machine.available_memory(&machine.memory_groups())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_machine_without_groups_may_use_all_its_memory() {
    assert_eq!(Tree::new("none", "", "").usable(), 16 * GIB);
    assert_eq!(Tree::new("unlimited", "0::/a\n", UNIFIED).usable(), 16 * GIB);
}

#[test]
fn the_smallest_limit_of_version_2_on_the_way_to_the_root_counts() {
    let tree = Tree::new("v2", "0::/outer/inner\n", UNIFIED);
    tree.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    tree.write("sys/fs/cgroup/outer/inner/memory.high", "max\n");
    assert_eq!(tree.usable(), 16 * GIB);
    tree.write("sys/fs/cgroup/outer/memory.max", &format!("{}\n", 4 * GIB));
    assert_eq!(tree.usable(), 4 * GIB);
    tree.write("sys/fs/cgroup/outer/inner/memory.max", &format!("{}\n", 8 * GIB));
    assert_eq!(tree.usable(), 4 * GIB);
    tree.write("sys/fs/cgroup/outer/inner/memory.high", &format!("{}\n", 2 * GIB));
    assert_eq!(tree.usable(), 2 * GIB, "the kernel slows down processes above this limit");
}

#[test]
fn a_limit_above_the_memory_of_the_machine_does_not_count() {
    let tree = Tree::new("above", "0::/job\n", UNIFIED);
    tree.write("sys/fs/cgroup/job/memory.max", &format!("{}\n", 64 * GIB));
    assert_eq!(tree.usable(), 16 * GIB);
}

#[test]
fn the_smallest_limit_of_version_1_on_the_way_to_the_root_counts() {
    let own = "5:cpu,cpuacct:/elsewhere\n4:memory:/outer/inner\n0::/\n";
    let tree = Tree::new("v1", own, LEGACY);
    tree.write("sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", "9223372036854771712\n");
    assert_eq!(tree.usable(), 16 * GIB);
    tree.write("sys/fs/cgroup/memory/outer/memory.limit_in_bytes", &format!("{}\n", 3 * GIB));
    assert_eq!(tree.usable(), 3 * GIB);
}

#[test]
fn a_group_of_version_1_above_the_visible_ones_counts() {
    let tree = Tree::new("v1-hidden", "4:memory:/docker/x\n", LEGACY);
    let text = format!("cache 0\nhierarchical_memory_limit {}\ntotal_cache 0\n", 2 * GIB);
    tree.write("sys/fs/cgroup/memory/memory.stat", &text);
    assert_eq!(tree.usable(), 2 * GIB);
}

#[test]
fn in_a_hybrid_setup_the_hierarchy_with_the_memory_controller_counts() {
    let own = "4:memory:/job\n0::/user\n";
    let tree = Tree::new("hybrid", own, &format!("{LEGACY}{HYBRID}"));
    tree.write("sys/fs/cgroup/unified/user/cgroup.procs", "1\n");
    tree.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", &format!("{GIB}\n"));
    assert_eq!(tree.usable(), GIB);
}

#[test]
fn a_container_that_sees_its_hosts_path_has_the_limit_of_its_own_mount() {
    let mounts = "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    let tree = Tree::new("container", "0::/docker/abc/task\n", mounts);
    tree.write("sys/fs/cgroup/memory.max", &format!("{}\n", 5 * GIB));
    assert_eq!(tree.usable(), 5 * GIB);
    tree.write("sys/fs/cgroup/task/memory.max", &format!("{GIB}\n"));
    assert_eq!(tree.usable(), GIB);
    let tree = Tree::new("outside", "0::/../sibling\n", UNIFIED);
    tree.write("sys/fs/cgroup/memory.max", &format!("{}\n", 6 * GIB));
    assert_eq!(tree.usable(), 6 * GIB);
}

#[test]
fn cached_files_of_a_group_are_available_and_the_rest_of_its_use_is_not() {
    let tree = Tree::new("available-v2", "0::/job\n", UNIFIED);
    assert_eq!(tree.available(), 8 * GIB, "the machine has so much");
    tree.write("sys/fs/cgroup/job/memory.max", &format!("{}\n", 4 * GIB));
    tree.write("sys/fs/cgroup/job/memory.current", &format!("{}\n", 3 * GIB));
    assert_eq!(tree.available(), GIB);
    let text = format!("anon 5\ninactive_file {GIB}\nactive_file {}\n", GIB / 2);
    tree.write("sys/fs/cgroup/job/memory.stat", &text);
    assert_eq!(tree.available(), 2 * GIB + GIB / 2);

    let tree = Tree::new("available-v1", "4:memory:/job\n", LEGACY);
    tree.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", &format!("{GIB}\n"));
    tree.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", &format!("{}\n", 2 * GIB));
    assert_eq!(tree.available(), 0, "a limit can be lowered below the memory in use");
    tree.write("sys/fs/cgroup/memory/job/memory.stat", &format!("total_active_file {GIB}\n"));
    tree.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", &format!("{GIB}\n"));
    assert_eq!(tree.available(), GIB);
}

#[test]
fn without_a_quota_all_cpus_of_the_affinity_mask_can_be_used() {
    let expected = MachineCpus { allowed: 8, quota: None };
    assert_eq!(Tree::new("cpu-none", "", "").cpus(), expected);
    let tree = Tree::new("cpu-max", "0::/a\n", UNIFIED);
    for text in ["max 100000\n", "not a number\n", "100000\n", "100000 0\n", ""] {
        tree.write("sys/fs/cgroup/a/cpu.max", text);
        assert_eq!(tree.cpus(), expected, "{text}");
    }
    assert_eq!(tree.cpus().usable(), 8);
    tree.write("sys/fs/cgroup/a/cpu.max", "3200000 100000\n");
    assert_eq!(tree.cpus().usable(), 8, "a quota above the affinity mask does not count");
}

#[test]
fn the_smallest_quota_of_version_2_on_the_way_to_the_root_counts() {
    let tree = Tree::new("cpu-v2", "0::/outer/inner\n", UNIFIED);
    tree.write("sys/fs/cgroup/outer/cpu.max", "600000 100000\n");
    assert_eq!((tree.cpus().quota, tree.cpus().usable()), (Some(6.0), 6));
    tree.write("sys/fs/cgroup/outer/inner/cpu.max", "125000 50000\n");
    assert_eq!((tree.cpus().quota, tree.cpus().usable()), (Some(2.5), 2), "rounded down");
    tree.write("sys/fs/cgroup/outer/cpu.max", "1000 100000\n");
    assert_eq!((tree.cpus().quota, tree.cpus().usable()), (Some(0.01), 1), "at least one");
}

#[test]
fn the_smallest_quota_of_version_1_on_the_way_to_the_root_counts() {
    let own = "5:cpu,cpuacct:/outer/inner\n4:memory:/elsewhere\n0::/\n";
    let tree = Tree::new("cpu-v1", own, &format!("{LEGACY}{LEGACY_CPU}{HYBRID}"));
    let group = "sys/fs/cgroup/cpu,cpuacct/outer";
    tree.write(&format!("{group}/inner/cpu.cfs_quota_us"), "-1\n");
    tree.write(&format!("{group}/inner/cpu.cfs_period_us"), "100000\n");
    assert_eq!(tree.cpus(), MachineCpus { allowed: 8, quota: None });
    tree.write(&format!("{group}/cpu.cfs_quota_us"), "350000\n");
    assert_eq!(tree.cpus().quota, None, "a quota without a period does not count");
    tree.write(&format!("{group}/cpu.cfs_period_us"), "100000\n");
    assert_eq!((tree.cpus().quota, tree.cpus().usable()), (Some(3.5), 3));
}

#[test]
fn in_a_hybrid_setup_a_quota_of_either_version_counts() {
    let own = "5:cpu,cpuacct:/job\n0::/user\n";
    let tree = Tree::new("cpu-hybrid", own, &format!("{LEGACY_CPU}{HYBRID}"));
    tree.write("sys/fs/cgroup/unified/user/cpu.max", "500000 100000\n");
    assert_eq!(tree.cpus().usable(), 5);
    tree.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    tree.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_eq!(tree.cpus().usable(), 2);
}

#[test]
fn the_limits_of_the_process_are_read() {
    let tree = Tree::new("limits", "", "");
    let read = || Machine::at(&tree.0).process_limits();
    assert_eq!(read(), ProcessLimits::default());
    tree.write(
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max file size             1048576              unlimited            bytes     \n\
         Max address space         unlimited            unlimited            bytes     \n",
    );
    assert_eq!(read(), ProcessLimits { address_space: None, file_size: Some(1 << 20) });
    tree.write("proc/self/status", "VmPeak:\t  20 kB\nVmSize:\t    12 kB\n");
    assert_eq!(Machine::at(&tree.0).mapped_size(), 12 << 10);
}

#[test]
fn this_machine_has_cpus_and_memory() {
    let cpus = gristmill_machine::cpus();
    assert!(cpus.usable() >= 1 && cpus.usable() <= cpus.allowed);
    assert_eq!(
        Ok(cpus.usable()),
        std::thread::available_parallelism().map(usize::from).map_err(drop)
    );
    let memory = gristmill_machine::memory();
    assert!(memory.usable > 0 && memory.usable <= memory.machine);
}
