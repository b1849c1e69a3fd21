//! The machine as the files in `/proc` and `/sys` describe it.

mod cgroup;
mod text;

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use self::cgroup::Cgroup;
use super::cores;
use crate::platform::machine::{Counters, Device, Ends, Queues, Scaling};

/// Most cores of which the frequency is read, since each is a file.
const MOST_CORES: usize = 64;

/// This machine, and the cores of it that the program may use.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The directory that has `proc` and `sys`.
    root: PathBuf,
    cores: Vec<usize>,
}

impl Machine {
    /// Returns the machine on which the program runs, with the cores that this thread may use.
    #[must_use]
    pub fn this() -> Self {
        Self { root: PathBuf::from("/"), cores: cores::allowed() }
    }

    /// Returns the numbers of the cores as in `0-3,8`, if they are known.
    #[must_use]
    pub fn core_list(&self) -> Option<String> {
        Some(text::ranges(&self.cores)).filter(|list| !list.is_empty())
    }

    /// Returns the NUMA nodes of the cores.
    #[must_use]
    pub fn numa_nodes(&self) -> Vec<usize> {
        let numbered = |name: String| name.strip_prefix("node")?.parse::<usize>().ok();
        let nodes = self.names("sys/devices/system/node").into_iter().filter_map(numbered);
        let mut nodes: Vec<usize> = nodes.filter(|node| self.has_core_of(*node)).collect();
        nodes.sort_unstable();
        nodes
    }

    fn has_core_of(&self, node: usize) -> bool {
        let list = self.read(&format!("sys/devices/system/node/node{node}/cpulist"));
        let ranges = text::core_ranges(list.as_deref().unwrap_or_default());
        self.cores.iter().any(|core| ranges.iter().any(|range| range.contains(core)))
    }

    /// Returns the CPU limit of the program in thousandths of a core, if it has one: the least of its
    /// control groups.
    #[must_use]
    pub fn cpu_limit_millicores(&self) -> Option<u64> {
        self.cgroups().iter().filter_map(Cgroup::limit_millicores).min()
    }

    /// Returns how the frequency of the first core is controlled; `None` if it is not, as in most
    /// virtual machines.
    #[must_use]
    pub fn scaling(&self) -> Option<Scaling> {
        let core = self.cores.first()?;
        let word = |name: &str| {
            let read = self.read(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/{name}"))?;
            Some(read.trim().to_owned()).filter(|word| !word.is_empty())
        };
        let mhz = |name: &str| Some(word(name)?.parse::<u64>().ok()? / 1000);
        Some(Scaling {
            governor: word("scaling_governor")?,
            driver: word("scaling_driver")?,
            min_mhz: mhz("cpuinfo_min_freq"),
            max_mhz: mhz("cpuinfo_max_freq"),
        })
    }

    /// Returns the current frequency of the fastest core in MHz, if it is known.
    #[must_use]
    pub fn fastest_mhz(&self) -> Option<u64> {
        let step = self.cores.len().div_ceil(MOST_CORES).max(1);
        let khz = self.cores.iter().step_by(step).filter_map(|core| {
            self.number(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq"))
        });
        Some(khz.max()? / 1000)
    }

    /// Reads all counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            cores: self.read("proc/stat").and_then(|it| text::core_time(&it, &self.cores)),
            throttling: cgroup::throttling(&self.cgroups()),
            pressure_us: self.read("proc/pressure/cpu").as_deref().and_then(text::some_pressure_us),
            devices: self.devices(),
        }
    }

    fn cgroups(&self) -> Vec<Cgroup> {
        let groups = self.read("proc/self/cgroup").unwrap_or_default();
        cgroup::directories(&groups)
            .iter()
            .map(|directory| Cgroup::read(&|file| self.read(&format!("{directory}/{file}"))))
            .collect()
    }

    fn devices(&self) -> Vec<Device> {
        let names = self.names("sys/class/net").into_iter().filter(|name| name != "lo");
        let device = |name: String| {
            let of =
                |counter: &str| self.number(&format!("sys/class/net/{name}/statistics/{counter}"));
            Some(Device {
                received: of("rx_packets")?,
                sent: of("tx_packets")?,
                // Missed packets found the device's queue full, and are not among the dropped ones.
                receive_drops: of("rx_dropped")?
                    .saturating_add(of("rx_missed_errors").unwrap_or(0)),
                send_drops: of("tx_dropped")?,
                name,
            })
        };
        let mut devices: Vec<Device> = names.filter_map(device).collect();
        devices.sort_by(|one, other| one.name.cmp(&other.name));
        devices
    }

    /// Returns the network device between `ends` by the main routing table; `None` if both are on this
    /// machine, or there is no route.
    #[must_use]
    pub fn device_between(&self, ends: Ends) -> Option<String> {
        if ends.remote.is_loopback() || ends.local == ends.remote {
            return None;
        }
        match ends.remote.to_canonical() {
            IpAddr::V4(to) => text::device_to_v4(&self.read("proc/net/route")?, to),
            IpAddr::V6(to) => text::device_to_v6(&self.read("proc/net/ipv6_route")?, to),
        }
    }

    /// Returns the number of queues of the network device `name`.
    #[must_use]
    pub fn queues(&self, name: &str) -> Queues {
        let names = self.names(&format!("sys/class/net/{name}/queues"));
        let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
        Queues { receive: count("rx-") as u64, send: count("tx-") as u64 }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.trim().parse().ok()
    }

    /// Returns the names in a directory; none if it cannot be read.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

#[cfg(test)]
mod tests;
