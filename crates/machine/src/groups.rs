//! The control groups of this process, found through `/proc/self/cgroup` and `/proc/self/mountinfo`.

use crate::Machine;
use std::path::{Component, Path, PathBuf};

/// The version of a hierarchy of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 1: a controller has a hierarchy of its own, or shares one with some other controllers.
    Legacy,
    /// Version 2: all controllers share one hierarchy.
    Unified,
}

/// The resource that a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Cpu,
    Memory,
}

impl Controller {
    /// Returns true if a list of controllers or mount options, separated by commas, names this controller.
    fn is_in(self, list: &str) -> bool {
        let own = match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        };
        list.split(',').any(|name| name == own)
    }
}

/// A control group that contains this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The group's folder in the mounted hierarchy.
    pub folder: PathBuf,
    /// The hierarchy of the group.
    pub hierarchy: Hierarchy,
}

/// A mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    hierarchy: Hierarchy,
    /// The group at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Machine {
    /// Returns the groups that limit this process's memory: from its own group up to the outermost visible one, version
    /// 2 before version 1.
    #[must_use]
    pub fn memory_groups(&self) -> Vec<Group> {
        self.groups(Controller::Memory)
    }

    /// Returns the groups of a controller, in the order of [`Self::memory_groups`]. Both versions are read because a
    /// hybrid setup may attach the controller to either.
    pub(crate) fn groups(&self, controller: Controller) -> Vec<Group> {
        let read = |path: &str| self.read(Path::new(path)).unwrap_or_default();
        let (own, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        let mounts: Vec<Mount> =
            mounts.lines().filter_map(|line| read_mount(line, controller)).collect();
        let mut groups = Vec::new();
        for hierarchy in [Hierarchy::Unified, Hierarchy::Legacy] {
            let Some(path) = own.lines().find_map(|line| own_path(line, hierarchy, controller))
            else {
                continue;
            };
            for mount in mounts.iter().filter(|mount| mount.hierarchy == hierarchy) {
                let folders = mount.folders(Path::new(path));
                groups.extend(folders.into_iter().map(|folder| Group { folder, hierarchy }));
            }
        }
        groups
    }
}

/// Returns the path of this process's group if `line` of `/proc/self/cgroup` belongs to `hierarchy` and `controller`.
fn own_path(line: &str, hierarchy: Hierarchy, controller: Controller) -> Option<&str> {
    let mut fields = line.splitn(3, ':');
    let (_number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let names_it = match hierarchy {
        Hierarchy::Unified => controllers.is_empty(),
        Hierarchy::Legacy => controller.is_in(controllers),
    };
    names_it.then_some(path)
}

/// Parses a line of `/proc/self/mountinfo`. Returns `None` unless the line mounts a hierarchy that may have the controller.
fn read_mount(line: &str, controller: Controller) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, _source, options) = (after.next()?, after.next()?, after.next()?);
    let hierarchy = match kind {
        "cgroup2" => Hierarchy::Unified,
        "cgroup" if controller.is_in(options) => Hierarchy::Legacy,
        _ => return None,
    };
    let mut fields = before.split(' ').skip(3);
    let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
    Some(Mount { hierarchy, root: root.into(), point: point.into() })
}

/// Decodes the escapes of `mountinfo`: a backslash and three octal digits.
fn unescape(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, behind)) = rest.split_once('\\') {
        text.push_str(before);
        let code = behind.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if code.is_ascii() => {
                text.push(char::from(code));
                rest = &behind[3..];
            }
            _ => {
                text.push('\\');
                rest = behind;
            }
        }
    }
    text + rest
}

impl Mount {
    /// Returns the folders of the group at `path` and of its parents, up to the mount point. If the group is not below
    /// the group at the mount point, the result is the mount point alone: a container may see the host's path, and a
    /// process of another namespace may see a path that begins with `..`.
    fn folders(&self, path: &Path) -> Vec<PathBuf> {
        let inner = path.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let is_plain = inner.components().all(|part| matches!(part, Component::Normal(_)));
        let inner = if is_plain { inner } else { Path::new("") };
        inner.ancestors().map(|below| self.point.join(below)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mount_point_with_a_space_is_found() {
        let line = r"41 31 0:38 / /sys/fs/c\040group rw,relatime shared:4 - cgroup2 cgroup2 rw";
        let mount = read_mount(line, Controller::Memory).expect("it is a mount of version 2");
        assert_eq!(mount.point, Path::new("/sys/fs/c group"));
    }

    #[test]
    fn other_mounts_and_controllers_are_passed_over() {
        for line in [
            "23 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
            "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
            "nonsense",
            "",
            "1 2 - cgroup2",
        ] {
            assert_eq!(read_mount(line, Controller::Memory), None, "{line}");
        }
    }

    #[test]
    fn a_group_that_is_not_below_the_mount_counts_as_the_one_at_the_mount_point() {
        let (root, point) = (PathBuf::from("/docker/abc"), PathBuf::from("/sys/fs/cgroup"));
        let mount = Mount { hierarchy: Hierarchy::Unified, root, point };
        let outermost = vec![PathBuf::from("/sys/fs/cgroup")];
        for path in ["/", "/other", "/../../outside", "/docker/abc", "/docker/abc/../x"] {
            assert_eq!(mount.folders(Path::new(path)), outermost, "{path}");
        }
        let below = mount.folders(Path::new("/docker/abc/task"));
        assert_eq!(below, [PathBuf::from("/sys/fs/cgroup/task"), PathBuf::from("/sys/fs/cgroup")]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(line in ".{0,80}", path in ".{0,40}") {
            let _ = read_mount(&line, Controller::Cpu);
            let _ = own_path(&line, Hierarchy::Legacy, Controller::Cpu);
            let _ = unescape(&line);
            let mount = Mount { hierarchy: Hierarchy::Legacy, root: path.clone().into(), point: "/m".into() };
            prop_assert!(mount.folders(Path::new(&line)).iter().all(|folder| folder.starts_with("/m")));
        }
    }
}
