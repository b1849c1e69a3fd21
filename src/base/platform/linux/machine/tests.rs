use std::path::Path;

use super::*;
use crate::platform::machine::{CoreTime, Throttling};

/// Writes `files` into `root`, in the directories that they need.
fn tree(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn machine(root: &Path, cores: &[usize]) -> Machine {
    Machine { root: root.to_owned(), cores: cores.to_vec() }
}

/// A server with two sockets, in which a container may use four cores of the second one.
const SERVER: &[(&str, &str)] = &[
    (
        "proc/stat",
        "cpu  9 0 0 9 0 0 0 0 0 0\ncpu2 5 0 0 90 0 0 0 5 0 0\ncpu3 5 0 0 94 0 0 0 1 0 0\n",
    ),
    ("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\n"),
    ("proc/self/cgroup", "0::/pod/app\n"),
    ("sys/fs/cgroup/pod/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/pod/app/cpu.max", "200000 100000\n"),
    ("sys/fs/cgroup/pod/app/cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_usec 9000\n"),
    ("sys/devices/system/node/node0/cpulist", "0-1\n"),
    ("sys/devices/system/node/node1/cpulist", "2-3\n"),
    ("sys/devices/system/node/online", "0-1\n"),
    ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu2/cpufreq/scaling_driver", "acpi-cpufreq\n"),
    ("sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_min_freq", "800000\n"),
    ("sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq", "3600000\n"),
    ("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "800000\n"),
    ("sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "1200000\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3500000\n"),
    (
        "proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask\neth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n",
    ),
    ("sys/class/net/lo/statistics/rx_packets", "99\n"),
    ("sys/class/net/eth0/statistics/rx_packets", "1000\n"),
    ("sys/class/net/eth0/statistics/tx_packets", "500\n"),
    ("sys/class/net/eth0/statistics/rx_dropped", "7\n"),
    ("sys/class/net/eth0/statistics/rx_missed_errors", "3\n"),
    ("sys/class/net/eth0/statistics/tx_dropped", "1\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
    ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
    ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
];

#[test]
fn a_container_on_a_server_with_two_nodes() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path(), SERVER);
    let machine = machine(root.path(), &[2, 3]);
    assert_eq!(machine.core_list().as_deref(), Some("2-3"));
    assert_eq!(machine.numa_nodes(), [1]);
    assert_eq!(machine.cpu_limit_millicores(), Some(2000));
    let scaling = machine.scaling().unwrap();
    assert_eq!((&*scaling.governor, &*scaling.driver), ("powersave", "acpi-cpufreq"));
    assert_eq!((scaling.min_mhz, scaling.max_mhz), (Some(800), Some(3600)));
    // The fastest core is not one that may be used.
    assert_eq!(machine.fastest_mhz(), Some(1200));
    let counters = Counters {
        cores: Some(CoreTime { cores: 2, all: 200, stolen: 6 }),
        throttling: Some(Throttling { periods: 10, throttled: 2, throttled_us: 9000 }),
        pressure_us: Some(123),
        devices: vec![Device {
            name: "eth0".to_owned(),
            received: 1000,
            sent: 500,
            receive_drops: 10,
            send_drops: 1,
        }],
    };
    assert_eq!(machine.counters(), counters);
    let ends = |local: &str, remote: &str| Ends {
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
    };
    let device = |local, remote| machine.device_between(ends(local, remote));
    assert_eq!(device("192.0.2.2", "198.51.100.1").as_deref(), Some("eth0"));
    assert_eq!(device("192.0.2.2", "::ffff:198.51.100.1").as_deref(), Some("eth0"));
    assert_eq!(device("127.0.0.1", "127.0.0.1"), None);
    assert_eq!(device("192.0.2.2", "192.0.2.2"), None, "a server on this machine");
    assert_eq!(device("2001:db8::1", "2001:db8::2"), None, "there are no routes of IPv6");
    assert_eq!(machine.queues("eth0"), Queues { receive: 2, send: 1 });
}

#[test]
fn a_machine_that_reveals_nothing() {
    let root = tempfile::tempdir().unwrap();
    let machine = machine(root.path(), &[]);
    assert_eq!(machine.counters(), Counters::default());
    assert_eq!((machine.core_list(), machine.scaling()), (None, None));
    assert_eq!((machine.fastest_mhz(), machine.cpu_limit_millicores()), (None, None));
    assert!(machine.numa_nodes().is_empty());
    assert_eq!(machine.queues("eth0"), Queues::default());
}

#[test]
fn this_machine_counts_the_time_of_its_cores() {
    let machine = Machine::this();
    let time = machine.counters().cores.unwrap();
    assert_eq!(time.cores, machine.cores.len() as u64);
    assert!(time.all > 0 && time.stolen < time.all);
}
