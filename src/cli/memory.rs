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

/// `cgroups` is `/proc/self/cgroup`; only version 2 is asked.
fn group_free(cgroups: &str) -> Option<u64> {
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(own);
    let number = |file: &str| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    Some(within(number("memory.max")?, number("memory.current")?, &stat))
}

/// What a limit leaves; mapped and cached files are given up where something else needs the memory.
fn within(limit: u64, used: u64, stat: &str) -> u64 {
    let files = stat.lines().find_map(|line| line.strip_prefix("file ")?.trim().parse().ok()).unwrap_or(0);
    limit.saturating_sub(used.saturating_sub(files))
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
        assert_eq!(within(1000, 700, "anon 300\nfile 400\n"), 700);
        assert_eq!(within(1000, 700, ""), 300);
        assert_eq!(within(1000, 1700, "file 0\n"), 0);
    }

    #[test]
    fn a_limit_of_the_process_leaves_what_it_does_not_hold() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax data size  4096000  unlimited  bytes\n";
        assert_eq!(left(limits, "Max data size", "VmData:\t 1000 kB\n", "VmData:"), Some(3_072_000));
        let unlimited = "Max data size         unlimited            unlimited            bytes\n";
        assert_eq!(left(unlimited, "Max data size", "VmData: 1000 kB\n", "VmData:"), None);
    }
}
