//! CPU limits of control groups: `cpu.max` of version 2, and the quota of version 1.

use std::iter;
use std::path::{Component, Path};

use crate::platform::machine::Throttling;

/// The CPU limit of a control group, if it has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cgroup {
    /// Microseconds of CPU time in each period, and the length of a period.
    quota: Option<(u64, u64)>,
    throttling: Option<Throttling>,
}

/// Returns the directories of the groups that may limit the CPU time of a process, given its
/// `/proc/self/cgroup`: its own group and those above it, of both versions. The lines of the file are
/// `number:controllers:path`. In a container the path may be that of the host, of which only the
/// last part exists, as the root.
pub(super) fn directories(groups: &str) -> Vec<String> {
    let mut directories = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mount = match controllers {
            "" => "sys/fs/cgroup",
            of if of.split(',').any(|controller| controller == "cpu") => "sys/fs/cgroup/cpu",
            _ => continue,
        };
        let normal = |part: Component<'_>| match part {
            Component::Normal(name) => name.to_str().map(str::to_owned),
            _ => None,
        };
        let mut names: Vec<String> = Path::new(path).components().filter_map(normal).collect();
        loop {
            let parts = iter::once(mount).chain(names.iter().map(String::as_str));
            directories.push(parts.collect::<Vec<&str>>().join("/"));
            if names.pop().is_none() {
                break;
            }
        }
    }
    directories
}

/// Returns how often the limits of `groups` stopped the program: the sum over the groups that have a
/// limit, which is usually one. `None` without a limit.
pub(super) fn throttling(groups: &[Cgroup]) -> Option<Throttling> {
    let limited = groups.iter().filter(|group| group.quota.is_some());
    limited.filter_map(|group| group.throttling).reduce(|one, other| Throttling {
        periods: one.periods.saturating_add(other.periods),
        throttled: one.throttled.saturating_add(other.throttled),
        throttled_us: one.throttled_us.saturating_add(other.throttled_us),
    })
}

impl Cgroup {
    /// Reads a group, whose files `read` returns.
    pub(super) fn read(read: &dyn Fn(&str) -> Option<String>) -> Self {
        let quota = match read("cpu.max") {
            Some(limit) => quota(&limit),
            None => quota(&format!(
                "{} {}",
                read("cpu.cfs_quota_us").unwrap_or_default().trim(),
                read("cpu.cfs_period_us").unwrap_or_default().trim()
            )),
        };
        Self { quota, throttling: read("cpu.stat").and_then(|text| counted(&text)) }
    }

    /// Returns the limit in thousandths of a core.
    pub(super) fn limit_millicores(&self) -> Option<u64> {
        let (quota, period) = self.quota?;
        quota.saturating_mul(1000).checked_div(period)
    }
}

/// Reads `quota period`; `max`, or -1 in version 1, is not a limit.
fn quota(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    Some((number()?, number()?))
}

/// Reads `cpu.stat`, which has the time in `throttled_usec`, and in version 1 in nanoseconds in
/// `throttled_time`.
fn counted(text: &str) -> Option<Throttling> {
    let number = |name: &str| {
        text.lines().find_map(|line| {
            let (found, value) = line.split_once(' ')?;
            (found == name).then(|| value.trim().parse::<u64>().ok())?
        })
    };
    let throttled_us =
        number("throttled_usec").or_else(|| number("throttled_time").map(|nanos| nanos / 1000));
    Some(Throttling {
        periods: number("nr_periods")?,
        throttled: number("nr_throttled")?,
        throttled_us: throttled_us.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_and_those_above_them() {
        let directories_of = |groups: &str| directories(groups);
        assert_eq!(
            directories_of("0::/user.slice/run.scope\n"),
            ["sys/fs/cgroup/user.slice/run.scope", "sys/fs/cgroup/user.slice", "sys/fs/cgroup"]
        );
        let first = "12:memory:/x\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/\n3:cpuset:/\n";
        assert_eq!(
            directories_of(first),
            ["sys/fs/cgroup/cpu/docker/1f", "sys/fs/cgroup/cpu/docker", "sys/fs/cgroup/cpu"]
        );
        // Seen from another namespace.
        assert_eq!(directories_of("0::/../..\n"), ["sys/fs/cgroup"]);
        assert!(directories_of("nonsense").is_empty());
    }

    #[test]
    fn limits_of_both_versions() {
        let group = |files: &'static [(&str, &str)]| {
            Cgroup::read(&|name| {
                let found = files.iter().find(|(file, _)| *file == name);
                found.map(|(_, text)| (*text).to_owned())
            })
        };
        let second = group(&[
            ("cpu.max", "150000 100000\n"),
            ("cpu.stat", "usage_usec 9\nnr_periods 40\nnr_throttled 3\nthrottled_usec 2500\n"),
        ]);
        let counted = Throttling { periods: 40, throttled: 3, throttled_us: 2500 };
        assert_eq!(second.limit_millicores(), Some(1500));
        assert_eq!(throttling(std::slice::from_ref(&second)), Some(counted));
        let first = group(&[
            ("cpu.cfs_quota_us", "50000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.stat", "nr_periods 40\nnr_throttled 3\nthrottled_time 2500000\n"),
        ]);
        assert_eq!(first.limit_millicores(), Some(500));
        assert_eq!(throttling(&[first]), Some(counted));
        // Without a limit there are counts, too.
        for none in [
            group(&[("cpu.max", "max 100000\n"), ("cpu.stat", "nr_periods 0\nnr_throttled 0\n")]),
            group(&[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]),
            group(&[]),
        ] {
            assert_eq!((none.limit_millicores(), throttling(&[none])), (None, None));
        }
        assert_eq!(group(&[("cpu.max", "5 0")]).limit_millicores(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _ = (directories(&text), quota(&text), counted(&text));
        }

        #[test]
        fn the_limit_is_the_quota_by_the_period(quota in 1000_u64..1 << 40, period in 1000_u64..1 << 20) {
            let group = Cgroup::read(&|name| (name == "cpu.max").then(|| format!("{quota} {period}")));
            prop_assert_eq!(group.limit_millicores(), Some(quota * 1000 / period));
        }
    }
}
