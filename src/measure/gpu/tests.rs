//! Fields, statistics and energy of GPUs, by hand.

use proptest::prelude::*;

use base::redact::ShownUrl;

use super::energy::{Sample, by_counter, by_power, is_known_at};
use super::fields::{Fields, Summary};
use super::identity::Gpu;
use super::live::gauges;
use super::report::{self, GpuReport, display};
use super::sample::samples;
use crate::metrics::gpu::{EnergySource, Vendor};
use crate::server_metrics::FetchTimes;
use crate::server_metrics::exposition::{Exposition, Format};
use crate::server_metrics::report::{Window, Windows};
use crate::server_metrics::snapshot::Snapshot;
use crate::server_metrics::store::Store;

const SECOND: u64 = 1_000_000_000;

/// Samples that are requested 10 ms before their response begins.
fn readings(values: &[(f64, f64)]) -> Vec<Sample> {
    let sample = |(seconds, value): &(f64, f64)| {
        let at_ns = (seconds * 1e9) as u64;
        Sample { requested_ns: at_ns - 10_000_000, at_ns, value: *value }
    };
    values.iter().map(sample).collect()
}

fn window(start: f64, end: f64) -> Window {
    Window { start_ns: (start * 1e9) as u64, end_ns: (end * 1e9) as u64 }
}

fn close(have: f64, expected: f64) {
    assert!((have - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{have}, not {expected}");
}

#[test]
fn a_counter_is_interpolated_at_the_edges_of_the_phase() {
    // 100 W until 12 s, then 300 W.
    let counter =
        readings(&[(10.0, 1000.0), (11.0, 1100.0), (12.0, 1200.0), (13.0, 1500.0), (14.0, 1800.0)]);
    let energy = by_counter(&counter, window(11.5, 12.5)).unwrap();
    assert_eq!(energy.source, EnergySource::Counter);
    // 1350 J at 12.5 s, 1150 J at 11.5 s.
    close(energy.joules, 200.0);
    // At 11.5 s, the counter was at least at 1100 J and at most at 1500 J: 1200 J could be read
    // before the edge, at 10.99 s. At 12.5 s, it was between 1200 J and 1800 J.
    close(energy.min_joules, 0.0);
    close(energy.max_joules, 700.0);
    close(energy.error(), 500.0);
}

#[test]
fn a_counter_that_is_read_rarely_is_extrapolated() {
    // 200 W, with a new value every 10 s.
    let counter = readings(&[(1.0, 0.0), (2.0, 0.0), (11.0, 2000.0), (12.0, 2000.0)]);
    let energy = by_counter(&counter, window(5.0, 15.0)).unwrap();
    close(energy.joules, 2000.0);
    assert!(energy.min_joules < 2000.0 && energy.max_joules > 2000.0);
    // The value does not change, or falls.
    assert_eq!(by_counter(&readings(&[(1.0, 5.0), (2.0, 5.0)]), window(1.0, 2.0)), None);
    let reset = readings(&[(1.0, 5.0), (2.0, 6.0), (3.0, 1.0)]);
    assert_eq!(by_counter(&reset, window(1.0, 2.0)), None);
    assert_eq!(by_counter(&[], window(1.0, 2.0)), None);
}

#[test]
fn a_counter_is_settled_once_a_value_is_surely_later_than_the_end() {
    let counter = readings(&[(1.0, 0.0), (2.0, 10.0), (3.0, 20.0)]);
    // The value of 3 s was not there at 1.99 s.
    assert!(is_known_at(&counter, (1.99 * 1e9) as u64));
    assert!(!is_known_at(&counter, 2 * SECOND));
}

#[test]
fn power_is_integrated_between_samples() {
    let power = readings(&[(10.0, 100.0), (12.0, 300.0), (14.0, 300.0)]);
    let energy = by_power(&power, window(11.0, 13.0)).unwrap();
    assert_eq!(energy.source, EnergySource::Power);
    // From 200 W to 300 W in the first second, then 300 W.
    close(energy.joules, 250.0 + 300.0);
    close(energy.min_joules, 100.0 + 300.0);
    close(energy.max_joules, 300.0 + 300.0);
    // Beyond the samples, the nearest one applies.
    close(by_power(&power, window(8.0, 10.0)).unwrap().joules, 200.0);
    close(by_power(&power, window(14.0, 15.0)).unwrap().joules, 300.0);
    assert_eq!(by_power(&[], window(1.0, 2.0)), None);
}

proptest! {
    /// Whatever a GPU draws, its energy is within the range that the samples of its counter permit.
    #[test]
    fn the_true_energy_is_within_the_range(
        watts in prop::collection::vec(1.0f64..1000.0, 20..40),
        start in 3.0f64..8.0,
        length in 0.5f64..8.0,
    ) {
        // A power for each second; the counter is read at each.
        let joules: Vec<f64> =
            watts.iter().scan(0.0, |sum, watts| { *sum += watts; Some(*sum - watts) }).collect();
        let exact = |at: f64| joules[at as usize] + watts[at as usize] * at.fract();
        let counter: Vec<(f64, f64)> =
            (1..joules.len()).map(|second| (second as f64, joules[second])).collect();
        let energy = by_counter(&readings(&counter), window(start, start + length)).unwrap();
        let truth = exact(start + length) - exact(start);
        prop_assert!(energy.min_joules <= truth + 1e-6, "{energy:?} {truth}");
        prop_assert!(energy.max_joules >= truth - 1e-6, "{energy:?} {truth}");
        prop_assert!(energy.min_joules <= energy.joules && energy.joules <= energy.max_joules);
    }

    #[test]
    fn any_file_of_fields_can_be_read(text: String) {
        let mut fields = Fields::default();
        let before = fields.iter().count();
        let lines = text.lines().count();
        let errors = fields.extend(&text);
        prop_assert!(fields.iter().count() - before + errors.len() <= lines);
    }
}

#[test]
fn further_fields_have_the_names_and_units_of_aiperf() {
    let mut fields = Fields::default();
    let errors = fields.extend(
        "# comment\n\
         DCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).\n\
         DCGM_FI_DEV_MEMORY_TEMP, gauge, Memory temperature (in C).\n\
         DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles, of the tensor pipe.\n\
         DCGM_FI_DEV_GPU_UTIL, gauge, known already\n\
         DCGM_FI_DRIVER, counter,\n\
         nonsense\n\
         OTHER_FIELD, gauge, other\n\
         DCGM_FI_DEV_X, label, a label\n",
    );
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("line 7 does not have the form"), "{errors:?}");
    assert!(errors[1].starts_with("line 8 does not name a field"), "{errors:?}");
    assert!(errors[2].starts_with("line 9 has a type"), "{errors:?}");
    let values_of = |tag: &str| {
        let field = fields.iter().find(|field| *field.tag == *tag && field.is_shown).unwrap();
        (field.title.to_string(), field.unit.to_string(), field.summary)
    };
    let gauge = Summary::Distribution;
    assert_eq!(values_of("nvidia_sm_clock"), ("SM Clock Frequency".into(), "MHz".into(), gauge));
    assert_eq!(values_of("nvidia_memory_temp"), ("Memory Temperature".into(), "°C".into(), gauge));
    let ratio = "Ratio Of Cycles, Of The Tensor Pipe.";
    assert_eq!(values_of("nvidia_pipe_tensor_active"), (ratio.into(), "count".into(), gauge));
    assert_eq!(values_of("nvidia_dcgm_fi_driver").1, "count");
    assert_eq!(fields.iter().filter(|field| &*field.tag == "nvidia_gpu_utilization").count(), 1);
}

#[test]
fn gpus_are_known_by_their_labels() {
    let gpu_with =
        |labels: &[(&'static str, &'static str)]| Gpu::from_labels(&labels.iter().copied());
    let dcgm = gpu_with(&[
        ("Hostname", "node1"),
        ("UUID", "GPU-1"),
        ("gpu", "3"),
        ("modelName", "NVIDIA H100"),
        ("namespace", ""),
        ("pod", "server-0"),
    ]);
    let dcgm = dcgm.unwrap();
    assert_eq!(
        (dcgm.gpu_index, &*dcgm.gpu_uuid, &*dcgm.gpu_model_name),
        (3, "GPU-1", "NVIDIA H100")
    );
    assert_eq!((dcgm.hostname.as_deref(), dcgm.namespace), (Some("node1"), None));
    assert_eq!(dcgm.pod_name.as_deref(), Some("server-0"));
    let amd =
        gpu_with(&[("gpu_id", "0"), ("serial_number", "S1"), ("card_series", "MI300X")]).unwrap();
    assert_eq!((&*amd.gpu_uuid, &*amd.gpu_model_name), ("S1", "MI300X"));
    assert_eq!(gpu_with(&[("gpu", "all")]), None);
    assert_eq!(gpu_with(&[]), None);
}

#[test]
fn exporters_are_shown_without_scheme_and_path() {
    for (url, shown) in [
        ("http://node1:9400/metrics", "node1:9400"),
        ("https://node1/api/metrics", "node1/api"),
        ("http://node1:9400/", "node1:9400"),
        ("nonsense", "nonsense"),
    ] {
        assert_eq!(display(url), shown);
    }
}

/// The report of one exporter with a body every second from 1 s on; the measurement lasts from
/// 1.5 s to 3.5 s.
fn report(bodies: &[String]) -> GpuReport {
    let mut store = Store::new(["http://node1:9400/metrics".into()]);
    for (second, body) in (1..).zip(bodies) {
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        let at = second * SECOND;
        let times = FetchTimes { request_sent_ns: at, first_byte_ns: at + 1, last_byte_ns: at + 2 };
        store.push(0, times, &Snapshot::from_exposition(&exposition));
    }
    let windows = Windows { warmup: None, profiling: Some(window(1.5, 3.5)) };
    report::build(&store, &Fields::default(), &windows, &[], true).unwrap()
}

fn body(watts: f64, millijoules: f64, rest: &str) -> String {
    let labels = "gpu=\"0\",UUID=\"GPU-1\",modelName=\"H100\"";
    format!(
        "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} {watts}\n\
         # TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n\
         DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {millijoules}\n{}",
        rest.replace("LABELS", labels)
    )
}

#[test]
fn statistics_cover_the_measurement() {
    let rest = "# TYPE DCGM_FI_DEV_FB_USED gauge\nDCGM_FI_DEV_FB_USED{LABELS} 1000\n\
                # TYPE DCGM_FI_PROF_SM_ACTIVE gauge\nDCGM_FI_PROF_SM_ACTIVE{LABELS} 0.25\n";
    let bodies: Vec<String> =
        [(100.0, 0.0), (300.0, 3e5), (500.0, 8e5), (400.0, 12e5), (90.0, 13e5)]
            .iter()
            .map(|(watts, millijoules)| body(*watts, *millijoules, rest))
            .collect();
    let report = report(&bodies);
    let gpu = &report.exporters[0].gpus[0];
    let metric = |tag: &str| gpu.metrics.iter().find(|metric| &*metric.tag == tag).unwrap();
    // The samples of 2 s, 3 s and 4 s, which is the first after the end.
    let power = metric("nvidia_power_usage");
    let spread = power.spread.unwrap();
    close(power.avg, 400.0);
    assert_eq!((spread.min, spread.max, spread.count, spread.sum), (300.0, 500.0, 3, 1200.0));
    close(spread.std, 100.0);
    close(spread.percentiles[4], 400.0);
    // 1,200,000 mJ − 0 mJ.
    close(metric("nvidia_energy_consumption").avg, 1200e-6);
    close(metric("nvidia_memory_used").avg, 1.048_576);
    close(metric("nvidia_sm_utilization").avg, 25.0);
    // 1000 J at 3.5 s, 150 J at 1.5 s.
    let energy = gpu.energy.unwrap();
    assert!((energy.joules - 850.0).abs() < 1e-3, "{energy:?}");
    close(gpu.idle_watts.unwrap(), 100.0);
    let fleet = &report.fleets[0];
    assert_eq!((fleet.vendor, fleet.gpus, fleet.seconds), (Vendor::Nvidia, 1, 2.0));
    close(fleet.power_watts.unwrap(), 400.0);
    assert!(report.doubts.is_empty(), "{:?}", report.doubts);
}

/// Two instances of a GPU: 1000 and 3000 MiB, a quarter and a half of its units; 300 W is the power of the
/// whole GPU, which is repeated.
#[test]
fn what_instances_divide_is_added_up_and_what_they_repeat_counts_once() {
    let of_instance = |id: u8, memory: u32, active: f64| {
        let labels =
            format!("gpu=\"0\",UUID=\"GPU-1\",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"{id}\"");
        [
            ("DCGM_FI_DEV_POWER_USAGE", 300.0),
            ("DCGM_FI_DEV_FB_USED", f64::from(memory)),
            ("DCGM_FI_PROF_SM_ACTIVE", active),
        ]
        .map(|(name, value)| (name, format!("{name}{{{labels}}} {value}\n")))
    };
    let [one, two] = [of_instance(1, 1000, 0.25), of_instance(2, 3000, 0.5)];
    let family = |(name, one): &(&str, String), two: &(&str, String)| {
        format!("# TYPE {name} gauge\n{one}{}", two.1)
    };
    let body: String = one.iter().zip(&two).map(|(one, two)| family(one, two)).collect();
    let report = report(&[body.clone(), body.clone(), body.clone(), body.clone()]);
    let gpu = &report.exporters[0].gpus[0];
    let average = |tag: &str| gpu.metrics.iter().find(|metric| &*metric.tag == tag).unwrap().avg;
    close(average("nvidia_power_usage"), 300.0);
    close(average("nvidia_memory_used"), 4000.0 * 1.048_576e-3);
    close(average("nvidia_sm_utilization"), 75.0);
    let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
    let samples = samples(&Snapshot::from_exposition(&exposition), &Fields::default());
    let value_of = |tag: &str| samples[0].values.iter().find(|(have, _)| **have == *tag).unwrap().1;
    close(value_of("nvidia_power_usage"), 300.0);
    close(value_of("nvidia_memory_used"), 4000.0 * 1.048_576e-3);
    close(value_of("nvidia_sm_utilization"), 75.0);
}

/// 300 W for 2 s are 600 J; the counter has 30 J a second.
#[test]
fn a_counter_that_contradicts_the_power_is_a_doubt() {
    let bodies: Vec<String> =
        (0..5).map(|second| body(300.0, f64::from(second) * 3e4, "")).collect();
    let report = report(&bodies);
    let energy = report.exporters[0].gpus[0].energy.unwrap();
    assert!((energy.joules - 60.0).abs() < 1e-3 && energy.max_joules >= 600.0, "{energy:?}");
    let doubts: Vec<_> = report.doubts.into_iter().map(|reason| reason.finding).collect();
    let expected = "GPU 0 of node1:9400 used 60 J by its counter of energy, but 600 J by its power";
    assert!(doubts.len() == 1 && doubts[0].starts_with(expected), "{doubts:?}");
}

#[test]
fn amd_exporters_are_read() {
    let at = |joules: f64| {
        let labels = "gpu_id=\"2\",serial_number=\"S\",card_series=\"MI300X\"";
        format!(
            "# TYPE amd_gpu_package_power gauge\namd_gpu_package_power{{{labels}}} 600\n\
             # TYPE amd_gpu_average_package_power gauge\n\
             amd_gpu_average_package_power{{{labels}}} 1\n\
             # TYPE amd_gpu_energy_consumed gauge\n\
             amd_gpu_energy_consumed{{{labels}}} {}\n\
             # TYPE amd_gpu_used_vram gauge\namd_gpu_used_vram{{{labels}}} 2000\n",
            joules * 1e6
        )
    };
    let report = report(&[0.0, 600.0, 1200.0, 1800.0, 2400.0].map(at));
    let gpu = &report.exporters[0].gpus[0];
    assert_eq!((gpu.vendor, gpu.gpu.gpu_index), (Vendor::Amd, 2));
    let average = |tag: &str| gpu.metrics.iter().find(|metric| &*metric.tag == tag).unwrap().avg;
    close(average("amd_power"), 600.0);
    close(average("amd_energy_consumption"), 1800e-6);
    close(average("amd_memory_used"), 2.097_152);
    close(gpu.energy.unwrap().joules, 1200.0);
}

#[test]
fn a_gpu_keeps_its_samples_when_its_pod_changes() {
    let pod = |name: &str, watts: f64| {
        format!(
            "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n\
             DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\",UUID=\"GPU-1\",pod=\"{name}\"}} {watts}\n"
        )
    };
    let report = report(&[pod("", 100.0), pod("a", 200.0), pod("b", 300.0), pod("b", 400.0)]);
    let gpus = &report.exporters[0].gpus;
    assert_eq!(gpus.len(), 1);
    close(gpus[0].metrics[0].avg, 300.0);
    // Without a counter, power is integrated: 150 W to 200 W, 200 W to 300 W, 300 W to 350 W.
    let energy = gpus[0].energy.unwrap();
    assert_eq!(energy.source, EnergySource::Power);
    assert!((energy.joules - (87.5 + 250.0 + 162.5)).abs() < 1e-3, "{energy:?}");
}

fn doubts(bodies: [&str; 5]) -> Vec<String> {
    let bodies: Vec<String> =
        (0..).zip(bodies).map(|(at, rest)| body(300.0, f64::from(at) * 3e5, rest)).collect();
    report(&bodies).doubts.into_iter().map(|reason| reason.finding).collect()
}

#[test]
fn errors_of_gpus_are_doubts() {
    let xid = |code: u64| {
        format!("# TYPE DCGM_FI_DEV_XID_ERRORS gauge\nDCGM_FI_DEV_XID_ERRORS{{LABELS}} {code}\n")
    };
    let (none, fault) = (xid(0), xid(31));
    assert_eq!(doubts([&none, &none, &none, &none, &none]), [""; 0]);
    assert_eq!(
        doubts([&fault, &fault, &fault, &fault, &fault]),
        ["GPU 0 of node1:9400 has reported XID error 31 since before the measurement"]
    );
    assert_eq!(
        doubts([&none, &none, &fault, &fault, &fault]),
        ["GPU 0 of node1:9400 reported XID error 31 during the measurement"]
    );
}

#[test]
fn slow_gpus_are_doubts() {
    let bits = |bits: u64| {
        format!(
            "# TYPE DCGM_FI_DEV_CLOCK_THROTTLE_REASONS gauge\n\
             DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{LABELS}} {bits}\n"
        )
    };
    let (capped, hot) = (bits(0x4), bits(0x40));
    assert_eq!(doubts([&capped, &capped, &capped, &capped, &capped]), [""; 0]);
    assert_eq!(
        doubts([&capped, &hot, &capped, &capped, &capped]),
        ["GPU 0 of node1:9400 had lower clocks because of a thermal slowdown by the hardware in \
          33% of the samples"]
    );
    let violation = |nanos: u64| {
        format!(
            "# TYPE DCGM_FI_DEV_POWER_VIOLATION counter\n\
             DCGM_FI_DEV_POWER_VIOLATION{{LABELS}} {nanos}\n"
        )
    };
    let (before, after) = (violation(5 * SECOND), violation(6 * SECOND));
    assert_eq!(
        doubts([&before, &before, &before, &after, &after]),
        ["GPU 0 of node1:9400 was slowed down by its power limit for 50% of the time"]
    );
    let clocks = "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK{LABELS} 1200\n\
                  # TYPE DCGM_FI_DEV_APP_SM_CLOCK gauge\nDCGM_FI_DEV_APP_SM_CLOCK{LABELS} 1980\n";
    assert_eq!(
        doubts([clocks; 5]),
        ["GPU 0 of node1:9400 had a mean clock of 1200 MHz, below the 1980 MHz that it was set to"]
    );
}

#[test]
fn impossible_samples_are_left_out_and_told() {
    let report = report(&[
        body(300.0, 0.0, ""),
        body(-5.0, 3e5, ""),
        body(2e6, 6e5, ""),
        body(300.0, -1e9, ""),
        // DCGM does not have a value.
        body(140_737_488_355_328.0, 12e5, ""),
    ]);
    let gpu = &report.exporters[0].gpus[0];
    let power = gpu.metrics.iter().find(|metric| &*metric.tag == "nvidia_power_usage").unwrap();
    let spread = power.spread.unwrap();
    assert_eq!((spread.count, spread.min, spread.max), (1, 300.0, 300.0));
    // 300 W by the counter without its negative value: 2 s of the phase.
    let energy = gpu.energy.unwrap();
    assert_eq!(energy.source, EnergySource::Counter);
    assert!((energy.joules - 600.0).abs() < 1e-3, "{energy:?}");
    let findings: Vec<&str> = report.doubts.iter().map(|doubt| &*doubt.finding).collect();
    assert_eq!(
        findings,
        [
            "GPU 0 of node1:9400 reported impossible values of nvidia_power_usage in 2 of 5 \
             samples, the first of them -5 W, which are left out",
            "GPU 0 of node1:9400 reported impossible values of nvidia_energy_consumption in 1 of 5 \
             samples, the first of them -1 MJ, which are left out",
        ]
    );
    let text = body(-5.0, 3e5, "");
    let exposition = Exposition::parse(text.as_bytes(), Format::Text).unwrap();
    let samples = samples(&Snapshot::from_exposition(&exposition), &Fields::default());
    let names: Vec<&str> = samples[0].values.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["nvidia_energy_consumption"]);
}

#[test]
fn a_counter_that_rises_too_fast_gives_way_to_power() {
    // 2 GJ in a second.
    let millijoules = [0.0, 3e5, 6e5, 2e12, 2e12 + 3e5];
    let report = report(&millijoules.map(|counter| body(300.0, counter, "")));
    let energy = report.exporters[0].gpus[0].energy.unwrap();
    assert_eq!(energy.source, EnergySource::Power);
    close(energy.joules, 600.0);
    assert_eq!(report.doubts.len(), 1);
    let finding = &report.doubts[0].finding;
    assert!(finding.contains("energy by 1000000148 J, more than a GPU can use"), "{finding}");
}

#[test]
fn exporters_that_nobody_named_are_listed_only_if_they_respond() {
    let url: ShownUrl = "http://localhost:9400/metrics".into();
    let store = Store::new([url.clone()]);
    let windows = Windows { warmup: None, profiling: Some(window(1.0, 2.0)) };
    let urls_with = |discovered: &[ShownUrl]| {
        report::build(&store, &Fields::default(), &windows, discovered, true).unwrap().configured
    };
    assert_eq!(urls_with(&[]), std::slice::from_ref(&url));
    assert!(urls_with(&[url]).is_empty());
}

#[test]
fn the_live_view_shows_the_highest_of_all_gpus() {
    let body = "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n\
                DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"A\"} 300\n\
                DCGM_FI_DEV_POWER_USAGE{gpu=\"1\",UUID=\"B\"} 400\n\
                # TYPE DCGM_FI_DEV_SM_CLOCK gauge\n\
                DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"A\"} 1980\n";
    let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
    let samples = samples(&Snapshot::from_exposition(&exposition), &Fields::default());
    // Fields that are only read for warnings are not among the samples.
    let values: Vec<(u64, Vec<f64>)> = samples
        .iter()
        .map(|one| (one.gpu.gpu_index, one.values.iter().map(|(_, value)| *value).collect()))
        .collect();
    assert_eq!(values, [(0, vec![300.0]), (1, vec![400.0])]);
    let gauges = gauges(&samples);
    assert_eq!(gauges.len(), 1);
    assert_eq!((gauges[0].watched.name, gauges[0].value), ("nvidia_power_usage", 400.0));
    assert_eq!(gauges[0].series, 2);
}
