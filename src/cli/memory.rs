//! How much memory there is, and was taken, as the system tells it; nothing where it does not.

use std::path::Path;

/// Bytes that this process may still take: free on the machine, in its control group, and by its own limits.
pub(super) fn free() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| kilobytes(&text, "MemAvailable:"));
    let group = read("/proc/self/cgroup").and_then(|text| group_free(&text));
    let limits = (read("/proc/self/limits"), read("/proc/self/status"));
    let limits = limits.0.zip(limits.1);
    let left = |(limit, held)| limits.as_ref().and_then(|(limits, status)| left(limits, limit, status, held));
    let [space, data] = [("Max address space", "VmSize:"), ("Max data size", "VmData:")].map(left);
    [machine, group, space, data].into_iter().flatten().min()
}

/// The most bytes of memory that this process has had, where the system says so.
pub(super) fn peak() -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// What a line like `MemAvailable:   123 kB` says, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Where a version of control groups keeps what it knows of memory.
struct Groups {
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Of `memory.stat`: mapped and cached files, but no shared memory, which nothing gives up.
    files: [&'static str; 2],
}

const VERSION_1: Groups = Groups {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_active_file ", "total_inactive_file "],
};
const VERSION_2: Groups = Groups {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    files: ["active_file ", "inactive_file "],
};

/// What the least of the limits leaves, of the process's groups and those around them; `cgroups` is
/// `/proc/self/cgroup`.
fn group_free(cgroups: &str) -> Option<u64> {
    let [first, second] = own_groups(cgroups);
    let free = |own: Option<&str>, groups: &Groups| own.and_then(|own| groups.free(own));
    [free(first, &VERSION_1), free(second, &VERSION_2)].into_iter().flatten().min()
}

/// The process's groups, of version 1 and of version 2.
fn own_groups(cgroups: &str) -> [Option<&str>; 2] {
    fn of_version_1(line: &str) -> Option<&str> {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next()?.split(',').any(|name| name == "memory").then_some(())?;
        parts.next()
    }
    let first = cgroups.lines().find_map(of_version_1);
    let second = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
    [first, second].map(|own| own.map(|own| own.trim_start_matches('/')))
}

impl Groups {
    fn free(&self, own: &str) -> Option<u64> {
        self.free_under(Path::new(self.root), own)
    }

    /// The least that the limits of a group and of those around it leave, where there are any.
    ///
    /// A container may see its own group as the root, whatever the system calls it: the root is asked too.
    fn free_under(&self, root: &Path, own: &str) -> Option<u64> {
        let of_group = |group: &Path| {
            let folder = root.join(group);
            let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
            let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
            let stat = read("memory.stat").unwrap_or_default();
            Some(self.within(number(self.limit)?, number(self.used)?, &stat))
        };
        Path::new(own).ancestors().filter_map(of_group).min()
    }

    /// What a limit leaves; mapped and cached files are given up where something else needs the memory.
    fn within(&self, limit: u64, used: u64, stat: &str) -> u64 {
        let of = |line: &str| self.files.iter().find_map(|name| line.strip_prefix(name)?.trim().parse().ok());
        let files = stat.lines().filter_map(of).fold(0, u64::saturating_add);
        limit.saturating_sub(used.saturating_sub(files))
    }
}

/// What a limit of `/proc/self/limits` leaves to a process that holds what its status says.
fn left(limits: &str, limit: &str, status: &str, held: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
    let soft: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(soft.saturating_sub(kilobytes(status, held)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:       100 kB\nMemFree:  1 kB\nMemAvailable:    50 kB\n";
        assert_eq!(kilobytes(text, "MemAvailable:"), Some(51_200));
        assert_eq!(kilobytes(text, "SwapFree:"), None);
        assert_eq!(kilobytes("MemAvailable: much kB\n", "MemAvailable:"), None);
    }

    #[test]
    fn a_limit_leaves_what_is_not_used_by_more_than_files() {
        assert_eq!(
            VERSION_2.within(1000, 700, "file 600\nshmem 200\nactive_file 300\ninactive_file 100\n"),
            700
        );
        assert_eq!(VERSION_1.within(1000, 700, "active_file 0\ntotal_active_file 400\n"), 700);
        assert_eq!(VERSION_2.within(1000, 700, ""), 300);
        assert_eq!(VERSION_2.within(1000, 1700, "active_file 0\n"), 0);
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_around_it_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let group = |path: &str, limit: &str, used: &str| {
            let folder = root.path().join(path);
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join("memory.max"), limit).expect("written");
            std::fs::write(folder.join("memory.current"), used).expect("written");
        };
        group("a", "1000\n", "300\n");
        group("a/b", "max\n", "200\n");
        assert_eq!(VERSION_2.free_under(root.path(), "a/b"), Some(700));
        assert_eq!(VERSION_2.free_under(root.path(), "elsewhere"), None);
        group("", "900\n", "400\n");
        assert_eq!(VERSION_2.free_under(root.path(), "a/b"), Some(500));
        assert_eq!(VERSION_2.free_under(root.path(), "elsewhere"), Some(500));
    }

    /// On a machine with version 1 a limit was not seen, and weights were loaded until the process was killed.
    #[test]
    fn groups_of_both_versions_are_found() {
        let mixed = "5:devices:/\n4:cpu,memory:/jobs/7\n0::/\n";
        assert_eq!(own_groups(mixed), [Some("jobs/7"), Some("")]);
        assert_eq!(own_groups("0::/user.slice/one\n"), [None, Some("user.slice/one")]);
        assert_eq!(own_groups("nonsense\n"), [None, None]);
    }

    #[test]
    fn a_limit_of_the_process_leaves_what_it_does_not_hold() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax data size  4096000  unlimited  bytes\n";
        assert_eq!(left(limits, "Max data size", "VmData:\t 1000 kB\n", "VmData:"), Some(3_072_000));
        let unlimited = "Max data size         unlimited            unlimited            bytes\n";
        assert_eq!(left(unlimited, "Max data size", "VmData: 1000 kB\n", "VmData:"), None);
    }
}
