//! Counters of the operating system that show disturbances of a measurement.

use std::net::IpAddr;

/// How the frequency of the cores is controlled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaling {
    /// The policy, such as `performance`.
    pub governor: String,
    /// The driver, such as `intel_pstate`, on which the meaning of some policies depends.
    pub driver: String,
    /// Lowest frequency of the processor in MHz.
    pub min_mhz: Option<u64>,
    /// Highest frequency of the processor in MHz.
    pub max_mhz: Option<u64>,
}

/// Counters since the machine started. What the system does not count is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time of the cores that the program may use.
    pub cores: Option<CoreTime>,
    /// The throttling by the program's CPU limit.
    pub throttling: Option<Throttling>,
    /// Microseconds in which some thread of the machine waited for a core.
    pub pressure_us: Option<u64>,
    /// Network devices, without the loopback.
    pub devices: Vec<Device>,
}

/// Time of some cores in ticks, of which there are a fixed number per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// Number of cores.
    pub cores: u64,
    /// All of their time, whether they were busy or idle.
    pub all: u64,
    /// Time in which a core had work, but the hypervisor ran something else.
    pub stolen: u64,
}

/// How often a CPU limit stopped the program. A limit is a quota of CPU time in each period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the program ran.
    pub periods: u64,
    /// Periods in which it used up its quota, and was stopped until the next one.
    pub throttled: u64,
    /// How long it was stopped, in microseconds: the sum over the cores.
    pub throttled_us: u64,
}

/// The packets of a network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Received packets that were dropped.
    pub receive_drops: u64,
    /// Packets to send that were dropped.
    pub send_drops: u64,
}

/// The queues of a network device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queues {
    /// Number of queues of received packets.
    pub receive: u64,
    /// Number of queues of packets to send.
    pub send: u64,
}

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The address of this machine.
    pub local: IpAddr,
    /// The address of the server, or of the proxy on the way to it.
    pub remote: IpAddr,
}
