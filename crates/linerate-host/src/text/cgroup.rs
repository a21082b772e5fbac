//! The cgroups of this process and how long they were throttled.

/// Time that a group's tasks were ready but not let onto a core, in nanoseconds, from its
/// `cpu.stat`: `throttled_usec` of version 2, `throttled_time` (in nanoseconds) of version 1.
///
/// The kernel adds it up over cores, so it may grow faster than time passes. `None` for a group
/// without a CPU controller.
pub(crate) fn parse_throttled_ns(text: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value: u64 = value.trim().parse().ok()?;
        match name {
            "throttled_usec" => Some(value.saturating_mul(1_000)),
            "throttled_time" => Some(value),
            _ => None,
        }
    })
}

/// CPU time that a group allows its tasks, in thousandths of a core: `cpu.max` of version 2, or `cpu.cfs_quota_us`
/// and `cpu.cfs_period_us` of version 1 with a space between. `None` without a limit.
pub(crate) fn parse_limit_millicores(text: &str) -> Option<u64> {
    let (quota, period) = text.trim().split_once(' ')?;
    // `max` and -1 are no limit.
    let quota: u64 = quota.parse().ok()?;
    quota.checked_mul(1_000)?.checked_div(period.trim().parse().ok()?)
}

/// The paths, without the leading `/`, of `cpu.stat` of this process' group and of every group
/// above it that can be seen, from the text of /proc/self/cgroup and /proc/self/mountinfo.
///
/// Groups above count, because a limit there holds back all below, but shows up only there. Both
/// versions may be mounted, with the CPU controller in either.
pub(crate) fn throttle_files(cgroup: &str, mountinfo: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in cgroup.lines() {
        // hierarchy:controllers:path; version 2 is hierarchy 0 and names no controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_v2 = hierarchy == "0" && controllers.is_empty();
        if !is_v2 && !controllers.split(',').any(|controller| controller == "cpu") {
            continue;
        }
        for mount in mountinfo.lines().filter_map(Mount::parse).filter(|mount| mount.is(is_v2)) {
            files.extend(mount.files(path));
        }
    }
    files
}

/// One cgroup file system, a line of /proc/self/mountinfo, proc_pid_mountinfo(5).
struct Mount<'a> {
    /// What part of the hierarchy is mounted.
    root: &'a str,
    /// Where it is mounted.
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, _source, options) = (after.next()?, after.next()?, after.next()?);
        Some(Self { root, point, kind, options })
    }

    fn is(&self, v2: bool) -> bool {
        if v2 {
            self.kind == "cgroup2"
        } else {
            self.kind == "cgroup" && self.options.split(',').any(|option| option == "cpu")
        }
    }

    /// `cpu.stat` of the group at `path` of the hierarchy and of all above it, own one first.
    fn files(&self, path: &str) -> Vec<String> {
        // In a container the mount may begin below the top of the hierarchy; groups outside of it
        // (`/..` with a namespace) cannot be seen, and then the mount's own root is the nearest.
        let below = if self.root == "/" { Some(path) } else { path.strip_prefix(self.root) };
        let below = below.unwrap_or_default().trim_matches('/');
        let below = if below.split('/').any(|part| part == "..") { "" } else { below };
        let point = self.point.trim_matches('/');
        let mut files = Vec::new();
        let mut group = below;
        while !group.is_empty() && files.len() < DEEPEST_GROUP {
            files.push(format!("{point}/{group}/cpu.stat"));
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
        }
        files.push(format!("{point}/cpu.stat"));
        files
    }
}

/// Real hierarchies are 3 to 8 deep; each level is a file to read with every sample.
const DEEPEST_GROUP: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_cpu_stat() {
        let v2 = "usage_usec 158809897\nuser_usec 1\nnr_periods 7\nnr_throttled 3\n\
                  throttled_usec 250000\nnr_bursts 0\n";
        assert_eq!(parse_throttled_ns(v2), Some(250_000_000));
        let v1 = "nr_periods 0\nnr_throttled 0\nthrottled_time 4217\n";
        assert_eq!(parse_throttled_ns(v1), Some(4_217));
        assert_eq!(parse_throttled_ns("usage_usec 158809897\n"), None);
        assert_eq!(parse_throttled_ns("throttled_usec"), None);
    }

    #[test]
    fn known_answers_of_limits() {
        assert_eq!(parse_limit_millicores("50000 100000\n"), Some(500));
        assert_eq!(parse_limit_millicores("max 100000"), None);
        assert_eq!(parse_limit_millicores("-1 100000"), None);
        assert_eq!(parse_limit_millicores("5 0"), None);
        assert_eq!(parse_limit_millicores("5"), None);
    }

    const V2: &str = "24 1 0:22 / /sys rw - sysfs sysfs rw\n\
        35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_group_and_all_above_it() {
        assert_eq!(
            throttle_files("0::/user.slice/user-1000.slice\n", V2),
            [
                "sys/fs/cgroup/user.slice/user-1000.slice/cpu.stat",
                "sys/fs/cgroup/user.slice/cpu.stat",
                "sys/fs/cgroup/cpu.stat",
            ]
        );
    }

    #[test]
    fn version_1_has_a_mount_for_the_controller() {
        let cgroup = "4:memory:/a\n1:cpu,cpuacct:/docker/77\n0::/\n";
        let mounts = "32 31 0:29 /docker/77 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup \
            rw,cpu,cpuacct\n33 31 0:30 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        assert_eq!(throttle_files(cgroup, mounts), ["sys/fs/cgroup/cpu,cpuacct/cpu.stat"]);
    }

    #[test]
    fn groups_outside_the_mount_are_not_looked_for() {
        assert_eq!(throttle_files("0::/../../other\n", V2), ["sys/fs/cgroup/cpu.stat"]);
        assert_eq!(throttle_files("0::/a\n", ""), Vec::<String>::new());
        assert_eq!(throttle_files("0:", V2), Vec::<String>::new());
    }
}
