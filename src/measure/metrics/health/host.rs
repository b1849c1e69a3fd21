//! Disturbances of the client by the machine while it measured.

use serde::{Deserialize, Serialize};

use base::platform::machine::{CoreTime, Counters, Device, Queues, Scaling, Throttling};

use super::client_health::{Reason, Verdict};

/// Stolen time above this share of the cores' time is suspect: a response arrives in such a time with
/// that probability, so that more than the slowest hundredth of the responses is affected.
const DOUBTFUL_STEAL: f64 = 0.01;
/// Share of the periods of a CPU limit in which the program was stopped that is suspect, for the same
/// reason.
const DOUBTFUL_THROTTLING: f64 = 0.01;
/// A governor that keeps the cores below this share of their highest frequency is suspect: what the
/// client does takes more than twice as long.
const DOUBTFUL_FREQUENCY: f64 = 0.5;
/// Share of lost packets that is suspect: of responses of ten packets, one in a hundred waits until
/// its packet is sent again.
const DOUBTFUL_DROPS: f64 = 0.001;
/// Fewer dropped packets are not judged: devices also count packets of protocols that the machine
/// does not know, a few per minute.
const FEW_DROPS: u64 = 10;
/// Drivers whose policy `powersave` adapts the frequency to the load, as others do by default.
const ADAPTIVE_DRIVERS: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

/// What the machine did to the client in the profiling phase. What the system does not reveal is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct HostActivity {
    /// Time of the cores that the hypervisor gave to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal: Option<Steal>,
    /// What the CPU limit of the program's control group did; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<CpuLimit>,
    /// Time in which some thread of the machine waited for a core, in percent, by the kernel's pressure
    /// stall information. The client's own threads are among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_percent: Option<f64>,
    /// Frequency of the fastest core, read once a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<Frequency>,
    /// The network devices on the way to the servers, without the loopback.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<Network>,
}

/// Time in which a core had work, but the hypervisor ran something else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Steal {
    /// Its share of the time of the cores that the program may use, in percent.
    pub percent: f64,
    /// What it is at least: the kernel counts in hundredths of a second.
    pub(crate) at_least_percent: f64,
}

/// The throttling by a CPU limit: a quota of CPU time in each period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CpuLimit {
    /// Periods in which the program ran.
    pub periods: u64,
    /// Periods in which it used up its quota and was stopped.
    pub(crate) throttled_periods: u64,
    /// How long it was stopped, in seconds: the sum over the cores.
    pub(crate) throttled_seconds: f64,
}

/// A frequency over time, in MHz.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Frequency {
    /// Lowest.
    pub min: u64,
    /// Mean.
    pub avg: f64,
    /// Highest.
    pub max: u64,
}

/// What a network device did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Network {
    /// Its name, such as `eth0`.
    pub device: String,
    /// Number of its queues of received packets.
    pub(crate) receive_queues: u64,
    /// Number of its queues of packets to send.
    pub(crate) send_queues: u64,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Received packets that were dropped.
    pub receive_drops: u64,
    /// Packets to send that were dropped.
    pub send_drops: u64,
}

impl Frequency {
    /// Returns the statistics of `readings` in MHz; `None` if there are none.
    pub fn from_readings(readings: &[u64]) -> Option<Self> {
        let sum = readings.iter().map(|mhz| *mhz as f64).sum::<f64>();
        Some(Self {
            min: *readings.iter().min()?,
            avg: sum / readings.len() as f64,
            max: *readings.iter().max()?,
        })
    }
}

impl Steal {
    fn between(before: CoreTime, after: CoreTime) -> Option<Self> {
        let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
        let stolen = after.stolen.checked_sub(before.stolen)?;
        let percent = |ticks: u64| 100.0 * ticks as f64 / all as f64;
        // Each core has counted up to one tick of what was stolen before.
        let at_least_percent = percent(stolen.saturating_sub(after.cores));
        Some(Self { percent: percent(stolen), at_least_percent })
    }
}

impl CpuLimit {
    fn between(before: Throttling, after: Throttling) -> Option<Self> {
        let micros = after.throttled_us.checked_sub(before.throttled_us)?;
        Some(Self {
            periods: after.periods.checked_sub(before.periods)?,
            throttled_periods: after.throttled.checked_sub(before.throttled)?,
            throttled_seconds: micros as f64 / 1e6,
        })
    }
}

impl Network {
    fn between(before: &Device, after: &Device, queues: Queues) -> Self {
        let rise = |of: fn(&Device) -> u64| of(after).saturating_sub(of(before));
        Self {
            device: after.name.clone(),
            receive_queues: queues.receive,
            send_queues: queues.send,
            received: rise(|device| device.received),
            sent: rise(|device| device.sent),
            receive_drops: rise(|device| device.receive_drops),
            send_drops: rise(|device| device.send_drops),
        }
    }
}

impl HostActivity {
    /// Returns what happened between two readings that are `seconds` apart. `network` are the devices
    /// to report, with their queues.
    pub fn between(
        before: &Counters,
        after: &Counters,
        seconds: f64,
        network: &[(String, Queues)],
    ) -> Self {
        let pressure = before.pressure_us.zip(after.pressure_us);
        let pressure = pressure.and_then(|(before, after)| after.checked_sub(before));
        let named = |counters: &Counters, name: &str| {
            counters.devices.iter().find(|device| device.name == name).cloned()
        };
        let network = network.iter().filter_map(|(name, queues)| {
            Some(Network::between(&named(before, name)?, &named(after, name)?, *queues))
        });
        let limits = before.throttling.zip(after.throttling);
        Self {
            steal: before.cores.zip(after.cores).and_then(|(one, two)| Steal::between(one, two)),
            cpu_limit: limits.and_then(|(before, after)| CpuLimit::between(before, after)),
            cpu_pressure_percent: pressure
                .filter(|_| seconds > 0.0)
                .map(|micros| (micros as f64 / 1e4 / seconds).min(100.0)),
            frequency_mhz: None,
            network: network.collect(),
        }
    }

    /// Returns what happened, in a few words each.
    pub fn facts(&self) -> Vec<String> {
        let own = [
            self.steal.map(|steal| format!("{:.1}% of the CPU time stolen", steal.percent)),
            self.cpu_limit.map(|limit| {
                format!(
                    "stopped by the CPU limit in {} of {} periods",
                    limit.throttled_periods, limit.periods
                )
            }),
            self.cpu_pressure_percent.map(|percent| format!("CPU pressure {percent:.0}%")),
            self.frequency_mhz.map(|mhz| format!("fastest core {} to {} MHz", mhz.min, mhz.max)),
        ];
        let network = self.network.iter().map(|it| {
            format!(
                "{} ({} receive and {} send queues) dropped {} of {} packets",
                it.device,
                it.receive_queues,
                it.send_queues,
                it.receive_drops.saturating_add(it.send_drops),
                it.received.saturating_add(it.sent)
            )
        });
        own.into_iter().flatten().chain(network).collect()
    }

    /// Returns the reasons for doubt, given how the frequency of the cores is controlled.
    pub fn reasons(&self, scaling: Option<&Scaling>) -> Vec<Reason> {
        let one = [self.stolen_time(), self.cpu_limit(), self.slow_cores(scaling)];
        one.into_iter().flatten().chain(self.network.iter().filter_map(Network::drops)).collect()
    }

    fn stolen_time(&self) -> Option<Reason> {
        let steal = self.steal.filter(|it| it.at_least_percent > 100.0 * DOUBTFUL_STEAL)?;
        Some(reason(
            "stolen-time",
            format!(
                "the hypervisor ran other machines in {:.1}% of the time of the client's cores, in \
                 which responses are neither received nor stamped",
                steal.percent
            ),
            "use a machine with cores of its own (dedicated instead of shared or burstable)",
        ))
    }

    fn cpu_limit(&self) -> Option<Reason> {
        let limit = self.cpu_limit?;
        let share = limit.throttled_periods as f64 / limit.periods.max(1) as f64;
        (share > DOUBTFUL_THROTTLING).then(|| {
            reason(
                "cpu-limit",
                format!(
                    "the CPU limit of the client's container or control group stopped it in {} of \
                     {} periods, for {:.3} s in total",
                    limit.throttled_periods, limit.periods, limit.throttled_seconds
                ),
                "raise or remove the limit (limits.cpu, --cpus, CPUQuota), or lower --workers-max \
                 and --record-processors to what it allows",
            )
        })
    }

    fn slow_cores(&self, scaling: Option<&Scaling>) -> Option<Reason> {
        let scaling = scaling.filter(|it| it.governor == "powersave")?;
        let (highest, most) = (self.frequency_mhz?.max, scaling.max_mhz?);
        let is_adaptive = ADAPTIVE_DRIVERS.contains(&&*scaling.driver);
        let is_slow = (highest as f64) < DOUBTFUL_FREQUENCY * most as f64;
        (is_slow && !is_adaptive).then(|| {
            reason(
                "slow-cores",
                format!(
                    "the governor powersave kept the cores at {highest} MHz or less, of {most} MHz"
                ),
                "choose the governor performance (cpupower frequency-set -g performance)",
            )
        })
    }
}

impl Network {
    fn drops(&self) -> Option<Reason> {
        let judged = |drops: u64, passed: u64| {
            let share = drops as f64 / drops.saturating_add(passed).max(1) as f64;
            drops >= FEW_DROPS && share > DOUBTFUL_DROPS
        };
        let received = judged(self.receive_drops, self.received);
        let is_doubtful = received || judged(self.send_drops, self.sent);
        is_doubtful.then(|| {
            reason(
                "dropped-packets",
                format!(
                    "{} dropped {} of the received and {} of the sent packets, which are sent again \
                     after a delay",
                    self.device, self.receive_drops, self.send_drops
                ),
                "see ethtool -S for the cause, and raise the size (ethtool -G) or the number \
                 (ethtool -L) of the device's queues",
            )
        })
    }
}

fn reason(name: &'static str, finding: String, advice: &str) -> Reason {
    Reason { verdict: Verdict::Suspect, name: name.into(), finding, advice: advice.to_owned() }
}

/// Returns an example of each reason.
pub(super) fn reasons_by_example() -> Vec<Reason> {
    let activity = HostActivity {
        steal: Some(Steal { percent: 2.5, at_least_percent: 2.4 }),
        cpu_limit: Some(CpuLimit { periods: 300, throttled_periods: 24, throttled_seconds: 0.9 }),
        frequency_mhz: Some(Frequency { min: 800, avg: 800.0, max: 800 }),
        network: vec![Network {
            device: "eth0".to_owned(),
            receive_queues: 1,
            send_queues: 1,
            received: 100_000,
            sent: 50_000,
            receive_drops: 400,
            send_drops: 0,
        }],
        ..HostActivity::default()
    };
    let scaling = Scaling {
        governor: "powersave".to_owned(),
        driver: "acpi-cpufreq".to_owned(),
        min_mhz: Some(800),
        max_mhz: Some(3600),
    };
    activity.reasons(Some(&scaling))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(stolen: u64, throttled: u64, drops: u64) -> Counters {
        Counters {
            cores: Some(CoreTime { cores: 2, all: 2000, stolen }),
            throttling: Some(Throttling {
                periods: 100,
                throttled,
                throttled_us: 1000 * throttled,
            }),
            pressure_us: Some(250_000),
            devices: vec![Device {
                name: "eth0".to_owned(),
                received: 10_000,
                receive_drops: drops,
                ..Device::default()
            }],
        }
    }

    fn zero() -> Counters {
        Counters {
            cores: Some(CoreTime { cores: 2, all: 0, stolen: 0 }),
            throttling: Some(Throttling::default()),
            pressure_us: Some(0),
            devices: vec![Device { name: "eth0".to_owned(), ..Device::default() }],
        }
    }

    fn names(activity: &HostActivity) -> Vec<String> {
        activity.reasons(None).into_iter().map(|reason| reason.name.into_owned()).collect()
    }

    fn until(after: &Counters) -> HostActivity {
        let network = [("eth0".to_owned(), Queues { receive: 4, send: 2 })];
        HostActivity::between(&zero(), after, 10.0, &network)
    }

    #[test]
    fn what_happened_is_the_difference_of_two_readings() {
        let earlier = counters(4, 3, 5);
        let mut later = counters(104, 13, 25);
        later.cores = Some(CoreTime { cores: 2, all: 4000, stolen: 104 });
        later.throttling =
            Some(Throttling { periods: 300, throttled: 13, throttled_us: 1_253_000 });
        later.pressure_us = Some(750_000);
        later.devices[0].received = 30_000;
        let network = [("eth0".to_owned(), Queues { receive: 4, send: 2 })];
        let activity = HostActivity::between(&earlier, &later, 10.0, &network);
        // 100 of 2,000 ticks, or 98 if both cores had counted part of a tick before.
        assert_eq!(activity.steal, Some(Steal { percent: 5.0, at_least_percent: 4.9 }));
        let limit = CpuLimit { periods: 200, throttled_periods: 10, throttled_seconds: 1.25 };
        assert_eq!(activity.cpu_limit, Some(limit));
        // 0.5 s of 10 s.
        assert_eq!(activity.cpu_pressure_percent, Some(5.0));
        let device = Network {
            device: "eth0".to_owned(),
            receive_queues: 4,
            send_queues: 2,
            received: 20_000,
            receive_drops: 20,
            ..Network::default()
        };
        assert_eq!(activity.network, [device]);
        let nothing = HostActivity::between(&Counters::default(), &later, 10.0, &network);
        assert_eq!(nothing, HostActivity::default());
    }

    #[test]
    fn facts_have_all_that_is_known() {
        let activity = HostActivity {
            frequency_mhz: Frequency::from_readings(&[900, 3100]),
            ..until(&counters(10, 3, 7))
        };
        let facts = [
            "0.5% of the CPU time stolen",
            "stopped by the CPU limit in 3 of 100 periods",
            // 0.25 s of 10 s are 2.5%, of which the even digit remains.
            "CPU pressure 2%",
            "fastest core 900 to 3100 MHz",
            "eth0 (4 receive and 2 send queues) dropped 7 of 10000 packets",
        ];
        assert_eq!(activity.facts(), facts);
        assert!(HostActivity::default().facts().is_empty());
    }

    #[test]
    fn a_little_is_not_a_reason() {
        // 22 of 2,000 ticks are 1.1%, but only 1% is certain.
        assert!(names(&until(&counters(22, 1, 10))).is_empty());
        assert_eq!(names(&until(&counters(23, 1, 10))), ["stolen-time"]);
        assert_eq!(names(&until(&counters(22, 2, 10))), ["cpu-limit"]);
        // 11 of 10,011 packets are more than a thousandth.
        assert_eq!(names(&until(&counters(22, 1, 11))), ["dropped-packets"]);
        let mut short = counters(0, 0, 9);
        short.devices[0].received = 100;
        assert!(names(&until(&short)).is_empty(), "too few drops to judge");
    }

    #[test]
    fn powersave_is_a_reason_only_where_it_means_slow() {
        let at = |max: u64| HostActivity {
            frequency_mhz: Frequency::from_readings(&[800, max]),
            ..HostActivity::default()
        };
        let scaling = |governor: &str, driver: &str| Scaling {
            governor: governor.to_owned(),
            driver: driver.to_owned(),
            min_mhz: Some(800),
            max_mhz: Some(3600),
        };
        let is_doubted = |max, governor: &str, driver: &str| {
            !at(max).reasons(Some(&scaling(governor, driver))).is_empty()
        };
        assert!(is_doubted(1200, "powersave", "acpi-cpufreq"));
        assert!(!is_doubted(1800, "powersave", "acpi-cpufreq"));
        assert!(!is_doubted(1200, "powersave", "intel_pstate"));
        assert!(!is_doubted(1200, "powersave", "amd-pstate-epp"));
        assert!(!is_doubted(1200, "schedutil", "acpi-cpufreq"), "the client may be idle");
        assert_eq!(
            Frequency::from_readings(&[1, 2, 6]),
            Some(Frequency { min: 1, avg: 3.0, max: 6 })
        );
        assert_eq!(Frequency::from_readings(&[]), None);
    }

    #[test]
    fn the_examples_are_all_reasons() {
        let names: Vec<_> = reasons_by_example().into_iter().map(|reason| reason.name).collect();
        assert_eq!(names, ["stolen-time", "cpu-limit", "slow-cores", "dropped-packets"]);
    }
}
