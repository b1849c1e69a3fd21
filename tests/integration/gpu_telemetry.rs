//! Whole runs that scrape exporters of GPUs with known power and energy.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::support::left_out::left_out;
use crate::support::load::mock;
use crate::support::otlp_receiver::{OtlpReceiver, Received};
use crate::support::port::Refusing;
use crate::support::python::run_python;
use crate::support::raw_server;
use crate::support::run::{Run, aiperf, given_program, json_lines, profile_command};

/// The power of each GPU of the exporter, in watts.
const WATTS: [f64; 2] = [300.0, 400.0];

/// Starts an exporter of GPUs with constant power; returns its address.
pub(crate) fn exporter(rest: &'static str) -> String {
    rising_exporter(0.0, rest)
}

/// Starts an exporter of GPUs whose power rises by `slope` watts per second, and whose energy counters
/// are read with each scrape; returns its address.
fn rising_exporter(slope: f64, rest: &'static str) -> String {
    let began = Instant::now();
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = raw_server::read_request(stream) {
            assert!(request.starts_with("GET /metrics "), "{request}");
            let body = exposition(began.elapsed().as_secs_f64(), slope, rest);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
            let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            raw_server::write(stream, answer.as_bytes());
        }
    });
    address.to_string()
}

fn exposition(seconds: f64, slope: f64, rest: &str) -> String {
    let mut power = String::from("# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n");
    let mut energy = String::from("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n");
    for (index, watts) in WATTS.iter().enumerate() {
        let labels = format!(
            "gpu=\"{index}\",UUID=\"GPU-{index}\",device=\"nvidia{index}\",modelName=\"NVIDIA \
             H100\",Hostname=\"node1\""
        );
        let now = watts + slope * seconds;
        let _ = writeln!(power, "DCGM_FI_DEV_POWER_USAGE{{{labels}}} {now}");
        let millijoules = 5e9 + 1e3 * (watts + slope * seconds / 2.0) * seconds;
        let _ = writeln!(energy, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {millijoules}");
    }
    format!("{power}{energy}{rest}")
}

/// Runs with an exporter every 50 ms.
fn run(url: &str, extra: &[&str]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(url, directory.path(), extra);
    command.env("AIPERF_GPU_COLLECTION_INTERVAL", "0.05");
    Run { output: command.output().unwrap(), directory }
}

fn average(summary: &Value, tag: &str) -> f64 {
    summary[tag]["avg"].as_f64().unwrap_or_else(|| panic!("{tag}: {}", summary[tag]))
}

#[test]
fn energy_and_what_follows_from_it_are_those_of_the_exporter() {
    let server = mock(Script::default());
    let exporter = exporter("");
    let asked = ["--gpu-telemetry", &exporter, "--gpu-idle-duration", "0.2"];
    let load = ["--concurrency", "2", "--benchmark-duration", "2", "--warmup-request-count", "2"];
    let run = run(&server.url(), &[&asked[..], &load].concat()).succeeded();
    let summary = run.summary();
    let energy = average(&summary, "nvidia_total_gpu_energy");
    let error = average(&summary, "nvidia_gpu_energy_error");
    // The power is constant, so that the mean power follows from the samples exactly.
    assert_eq!(average(&summary, "nvidia_total_gpu_power"), 700.0);
    assert_eq!(average(&summary, "nvidia_idle_gpu_power"), 700.0);
    let gpus = &summary["telemetry_data"]["endpoints"][&exporter]["gpus"];
    for (index, watts) in WATTS.iter().enumerate() {
        let gpu = &gpus[format!("gpu_{index}")];
        assert_eq!(gpu["gpu_index"], index);
        assert_eq!(gpu["gpu_name"], "NVIDIA H100");
        assert_eq!(gpu["gpu_uuid"], format!("GPU-{index}"));
        assert_eq!(gpu["platform"], "nvidia");
        assert_eq!(gpu["hostname"], "node1");
        let power = &gpu["metrics"]["nvidia_power_usage"];
        assert_eq!((&power["unit"], power["avg"].as_f64()), (&"W".into(), Some(*watts)));
        assert_eq!(power["std"], 0.0);
        assert_eq!(gpu["energy"]["source"], "counter");
    }
    // The script computes everything else from the samples and the records.
    run_python("tests/check_gpu_telemetry.py", run.directory.path());
    run_python("tests/read_parquet.py", run.directory.path());
    run_python("tests/run_notebook.py", run.directory.path());
    run_python("tests/read_with_aiperf.py", run.directory.path());
    let seconds = energy / average(&summary, "nvidia_average_gpu_power");
    assert!((energy - 700.0 * seconds).abs() <= error, "{energy} J in {seconds} s, ±{error} J");
    let lines = json_lines(&run.path("gpu_telemetry_export.jsonl"));
    assert_eq!(lines[0]["telemetry_source_url"], format!("http://{exporter}/metrics"));
    assert_eq!(lines[0]["telemetry_data"]["nvidia_power_usage"], 300.0);
    let csv = run.text("profile_export_aiperf.csv");
    let (_, section) = csv.split_once("\r\n\r\n\r\n").unwrap();
    assert!(section.starts_with("Endpoint,GPU_Index,GPU_Name,GPU_UUID,Platform,Metric,avg,"));
    assert!(section.contains(",NVIDIA GPU Power Usage (W),300.00,300.00,"), "{section}");
    assert!(section.lines().next().unwrap().ends_with(",std,Hostname"), "{section}");
    let shown = run.text("profile_export_console.txt");
    for part in ["GPU Power Efficiency (NVIDIA)", "1/1 telemetry sources reachable", "| GPU 1 |"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(summary["input_config"]["gpu_telemetry"]["enabled"], true);
    // The report is the same from the files.
    let again = aiperf(&["report", run.directory.path().to_str().unwrap()]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let rebuilt = run.summary();
    assert_eq!(rebuilt["telemetry_data"], summary["telemetry_data"]);
    for tag in ["nvidia_energy_per_request", "nvidia_output_tokens_per_joule"] {
        assert_eq!(rebuilt[tag], summary[tag], "{tag}");
    }
    // So is the table, and one that is made from the lines has the samples, too.
    run_python("tests/read_parquet.py", run.directory.path());
    fs::remove_file(run.path("profile_export.parquet")).unwrap();
    let again = aiperf(&["report", run.directory.path().to_str().unwrap()]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    run_python("tests/read_parquet.py", run.directory.path());
}

#[test]
fn the_power_at_the_knee_is_that_of_its_load() {
    let server = mock(Script {
        ttft: Nanos::from_millis(10.0),
        max_concurrent: Some(3),
        ..Script::default()
    });
    // Each load has another power than those before it.
    let exporter = rising_exporter(50.0, "");
    let load = ["--sweep-auto", "--concurrency-max", "64"];
    let asked = ["--gpu-telemetry", &exporter, "--gpu-idle-duration", "0.2"];
    let run = run(&server.url(), &[&load[..], &asked].concat()).succeeded();
    let text = run.text("sweep_aggregate/profile_export_aiperf_sweep.json");
    let sweep: Value = serde_json::from_str(&text).unwrap();
    let found = &sweep["saturation"];
    assert_eq!(found["status"], "saturated", "{found}");
    let mut powers = Vec::new();
    for cell in sweep["per_combination_metrics"].as_array().unwrap() {
        let directory = run.path(cell["directory"].as_str().unwrap());
        let samples = json_lines(&directory.join("gpu_telemetry_export.jsonl"));
        let first = samples.iter().filter(|sample| sample["gpu_index"] == 0);
        let sum = |sample: &Value| {
            let power = sample["telemetry_data"]["nvidia_power_usage"].as_f64().unwrap();
            2.0 * power + WATTS[1] - WATTS[0]
        };
        let sums: Vec<f64> = first.map(sum).collect();
        let of = |tag: &str| cell["metrics"][tag]["avg"].as_f64().unwrap();
        let watts = of("nvidia_average_gpu_power");
        // The time between a sample and its scrape is not known, which the error of the energy covers.
        let error = of("nvidia_gpu_energy_error") / of("nvidia_total_gpu_energy") * watts;
        let (low, high) = (sums[0] - error, sums[sums.len() - 1] + error);
        assert!(low < watts && watts < high, "{watts} W is not between {low} and {high}");
        if cell["parameters"]["concurrency"].as_f64() == found["saturated_from"].as_f64() {
            assert_eq!(found["gpu_power_watts"], watts);
        }
        powers.push(watts);
    }
    // A power is that of one load only.
    powers.sort_by(f64::total_cmp);
    assert!(powers.windows(2).all(|pair| pair[0] < pair[1]), "{powers:?}");
    assert!(found["gpu_power_watts"].is_f64(), "{found}");
    let shown = run.stdout();
    let part = format!(" W at concurrency {}.", found["saturated_from"].as_f64().unwrap());
    assert!(shown.contains("The GPUs draw ") && shown.contains(&part), "{part}\n{shown}");
}

#[test]
fn an_error_of_a_gpu_makes_the_result_suspect() {
    let server = mock(Script::default());
    let exporter = exporter(
        "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\nDCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-1\"} 31\n",
    );
    let flags = [
        ["--gpu-telemetry", &exporter],
        ["--gpu-idle-duration", "0"],
        ["--request-count", "4"],
        ["--gate", "client_health==valid"],
    ];
    let run = run(&server.url(), &flags.concat());
    assert_eq!(run.exit_code(), Some(3), "{}{}", run.stdout(), run.stderr());
    let health = &run.summary()["client_health"];
    assert_ne!(health["verdict"], "valid");
    let found = health["reasons"].as_array().unwrap().iter();
    let finding =
        format!("GPU 1 of {exporter} has reported XID error 31 since before the measurement");
    assert_eq!(found.filter(|reason| reason["finding"] == finding).count(), 1, "{health}");
}

#[test]
fn gates_limit_the_energy() {
    let server = mock(Script::default());
    let exporter = exporter("");
    let of = |gate: &str| {
        let flags = [
            ["--gpu-telemetry", &exporter],
            ["--gpu-idle-duration", "0"],
            ["--request-count", "4"],
            ["--gate", gate],
        ];
        run(&server.url(), &flags.concat()).exit_code()
    };
    assert_eq!(of("nvidia_total_gpu_power<=700"), Some(0));
    assert_eq!(of("nvidia_total_gpu_power<700"), Some(3));
}

#[test]
fn throughput_per_gpu_and_costs_need_no_exporter() {
    let server = mock(Script::default());
    let flags =
        ["--gpus", "8", "--gpu-hour-price", "2.5", "--concurrency", "4", "--request-count", "20"];
    let gate = ["--gate", "cost_per_request<1000", "--gate", "users_per_gpu<=0.5"];
    let run = run(&server.url(), &[&flags[..], &gate].concat()).succeeded();
    let of = |summary: &Value| {
        let of = |tag: &str| average(summary, tag);
        assert_eq!((of("gpu_count"), of("users_per_gpu")), (8.0, 0.5));
        let close = |tag: &str, expected: f64| {
            let found = of(tag);
            assert!((found / expected - 1.0).abs() < 1e-9, "{tag}: {found}, not {expected}");
        };
        close("output_token_throughput_per_gpu", of("output_token_throughput") / 8.0);
        close("total_token_throughput_per_gpu", of("total_token_throughput") / 8.0);
        close("request_throughput_per_gpu", of("request_throughput") / 8.0);
        let cost = of("benchmark_duration") / 3600.0 * 8.0 * 2.5;
        let (input, output) = (of("total_isl"), of("total_osl"));
        close("cost_per_million_input_tokens", cost / input * 1e6);
        close("cost_per_million_output_tokens", cost / output * 1e6);
        close("cost_per_million_tokens", cost / (input + output) * 1e6);
        close("cost_per_request", cost / 20.0);
    };
    of(&run.summary());
    let stdout = run.stdout();
    assert!(stdout.contains("\nGPUs: "), "{stdout}");
    // A report of the same files computes the same.
    let again = aiperf(&["report", run.directory.path().to_str().unwrap()]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    of(&run.summary());
}

#[test]
fn without_gpus_nothing_is_said_unless_asked() {
    let server = mock(Script::default());
    let gone = Refusing::new();
    let count = ["--request-count", "2"];
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &count);
    command.env("AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS", format!("[\"{}/metrics\"]", gone.url()));
    let quiet = Run { output: command.output().unwrap(), directory }.succeeded();
    assert!(!quiet.stdout().contains("GPU"), "{}", quiet.stdout());
    assert!(!quiet.stderr().contains("GPU"), "{}", quiet.stderr());
    assert!(quiet.summary().get("telemetry_data").is_none());
    assert!(!quiet.path("gpu_telemetry_export.jsonl").exists());
    let asked =
        run(&server.url(), &[&count[..], &["--gpu-telemetry", &gone.address.to_string()]].concat())
            .succeeded();
    assert!(asked.stdout().contains("No GPU telemetry was collected."), "{}", asked.stdout());
    assert!(asked.stderr().contains("no GPU telemetry from http://"), "{}", asked.stderr());
}

#[test]
fn usual_exporters_need_no_flag() {
    let server = mock(Script::default());
    let exporter = exporter("");
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--request-count", "2", "--gpu-idle-duration", "0"];
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    command.env("AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS", format!("[\"http://{exporter}/metrics\"]"));
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    assert_eq!(average(&run.summary(), "nvidia_total_gpu_power"), 700.0);
    let shown = run.stdout();
    assert!(shown.contains("\nGPUs: "), "{shown}");
    // The tables of GPUs are printed on request.
    for table in ["GPU Power Efficiency (NVIDIA)", "GPU Telemetry Summary"] {
        assert!(!shown.contains(table), "{shown}");
    }
}

/// NVML's functions for one GPU of 250 W, whose energy counter is read with each call.
const NVML: &str = r#"
#include <stdio.h>
#include <time.h>
struct rates { unsigned gpu, memory; };
struct memory { unsigned version; unsigned long long total, reserved, unused, used; };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    static int gpu;
    *device = &gpu;
    return index;
}
int nvmlDeviceGetName(void *gpu, char *name, unsigned size) {
    snprintf(name, size, "NVIDIA Test");
    return 0;
}
int nvmlDeviceGetUUID(void *gpu, char *name, unsigned size) {
    snprintf(name, size, "GPU-test");
    return 0;
}
int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts) { *milliwatts = 250000; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = 250000ULL * now.tv_sec + now.tv_nsec / 4000;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *gpu, struct rates *rates) {
    rates->gpu = 80;
    rates->memory = 40;
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void *gpu, struct memory *memory) {
    memory->used = 1ULL << 30;
    return 0;
}
int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *degrees) {
    *degrees = 61;
    return 0;
}
"#;

/// Builds a library with the functions of [`NVML`] in `directory`; returns whether there is a
/// compiler.
fn built_nvml(directory: &Path) -> bool {
    let source = directory.join("nvml.c");
    std::fs::write(&source, NVML).unwrap();
    let library = directory.join("libnvidia-ml.so.1");
    let compiler =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output();
    match compiler {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => false,
    }
}

/// Runs with the GPUs of this machine, as `source` and the variable `name` describe them.
fn run_without_exporter(source: &str, name: &str, value: &Path) -> Run {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let load = ["--gpu-telemetry", source, "--benchmark-duration", "0.5", "--concurrency", "1"];
    let load = [&load[..], &["--gpu-idle-duration", "0.2"]].concat();
    let mut command = profile_command(&server.url(), directory.path(), &load);
    command.env("AIPERF_GPU_COLLECTION_INTERVAL", "0.05").env(name, value);
    Run { output: command.output().unwrap(), directory }.succeeded()
}

#[test]
fn gpus_of_nvidia_need_no_exporter() {
    if given_program().is_some() {
        // A static program cannot load NVML.
        left_out("the program that Cargo builds");
        return;
    }
    let libraries = tempfile::tempdir().unwrap();
    // No library: the run says so, and continues.
    let run = run_without_exporter("pynvml", "LD_LIBRARY_PATH", libraries.path());
    let said = run.stderr();
    assert!(said.contains("cannot use libnvidia-ml.so.1"), "{said}");
    assert!(said.contains("install NVIDIA's driver, or start dcgm-exporter"), "{said}");
    if !built_nvml(libraries.path()) {
        left_out("a compiler called cc");
        return;
    }
    let run = run_without_exporter("nvml", "LD_LIBRARY_PATH", libraries.path());
    let summary = run.summary();
    assert_eq!(average(&summary, "nvidia_total_gpu_power"), 250.0);
    assert_eq!(average(&summary, "nvidia_idle_gpu_power"), 250.0);
    let gpu = &summary["telemetry_data"]["endpoints"]["localhost"]["gpus"]["gpu_0"];
    assert_eq!((&gpu["gpu_name"], &gpu["gpu_uuid"]), (&"NVIDIA Test".into(), &"GPU-test".into()));
    assert_eq!(gpu["energy"]["source"], "counter");
    for (tag, value) in [
        ("nvidia_power_usage", 250.0),
        ("nvidia_gpu_utilization", 80.0),
        ("nvidia_memory_utilization", 40.0),
        ("nvidia_memory_used", 1.073_741_824),
        ("nvidia_temperature", 61.0),
    ] {
        assert_eq!(gpu["metrics"][tag]["avg"].as_f64(), Some(value), "{tag}: {gpu}");
    }
    // 250 W for as long as the phase, within the range that the samples permit.
    let seconds = average(&summary, "nvidia_total_gpu_energy")
        / average(&summary, "nvidia_average_gpu_power");
    let error = average(&summary, "nvidia_gpu_energy_error");
    let energy = average(&summary, "nvidia_total_gpu_energy");
    assert!((energy - 250.0 * seconds).abs() <= error, "{energy} J in {seconds} s, ±{error} J");
    let lines = json_lines(&run.path("gpu_telemetry_export.jsonl"));
    assert_eq!(lines[0]["telemetry_source_url"], "pynvml://localhost");
}

#[test]
fn gpus_of_amd_need_no_exporter() {
    let files = tempfile::tempdir().unwrap();
    let run = run_without_exporter("amdsmi", "AIPERF_GPU_SYSFS", files.path());
    assert!(run.stderr().contains("start AMD's device-metrics-exporter"), "{}", run.stderr());
    let device = files.path().join("class/drm/card0/device");
    std::fs::create_dir_all(device.join("hwmon/hwmon3")).unwrap();
    for (name, text) in [
        ("vendor", "0x1002\n"),
        ("gpu_busy_percent", "93\n"),
        ("hwmon/hwmon3/power1_average", "450000000\n"),
    ] {
        std::fs::write(device.join(name), text).unwrap();
    }
    let run = run_without_exporter("amdsmi", "AIPERF_GPU_SYSFS", files.path());
    let summary = run.summary();
    assert_eq!(average(&summary, "amd_total_gpu_power"), 450.0);
    let endpoints = summary["telemetry_data"]["endpoints"].as_object().unwrap();
    let gpu = &endpoints.values().next().unwrap()["gpus"]["gpu_0"];
    assert_eq!(gpu["metrics"]["amd_gfx_activity"]["avg"], 93.0);
    assert_eq!(gpu["energy"]["source"], "power");
}

#[test]
fn what_is_not_an_exporter_is_rejected() {
    for (item, part) in [
        ("all", "is neither a URL nor a CSV file"),
        ("missing.csv", "missing.csv"),
        ("ftp://host:1", "ftp"),
    ] {
        let output =
            aiperf(&["profile", "--model", "m", "--gpu-telemetry", item]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{item}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(part), "{item}: {said}");
    }
}

#[test]
fn a_file_adds_fields_of_the_exporter() {
    let server = mock(Script::default());
    let exporter = exporter(
        "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-0\"} 1980\n",
    );
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("fields.csv");
    std::fs::write(&file, "DCGM_FI_DEV_SM_CLOCK, gauge, SM clock (in MHz)\nnonsense\n").unwrap();
    let file = file.to_str().unwrap();
    let flags = ["--gpu-telemetry", &exporter, file, "--gpu-idle-duration", "0"];
    let run = run(&server.url(), &[&flags[..], &["--request-count", "2"]].concat()).succeeded();
    let gpu = &run.summary()["telemetry_data"]["endpoints"][&exporter]["gpus"]["gpu_0"];
    let clock = &gpu["metrics"]["nvidia_sm_clock"];
    assert_eq!((&clock["unit"], clock["avg"].as_f64()), (&"MHz".into(), Some(1980.0)));
    assert!(run.stderr().contains("line 2 does not have the form"), "{}", run.stderr());
}

#[test]
fn a_collector_has_the_samples_by_the_names_of_the_conventions() {
    let (server, collector) = (mock(Script::default()), OtlpReceiver::http());
    let exporter = exporter(
        "# TYPE DCGM_FI_DEV_FB_USED gauge\nDCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-0\"} 1000\n\
         # TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0\"} 75\n",
    );
    let flags = [
        ["--gpu-telemetry", &exporter],
        ["--gpu-idle-duration", "0"],
        ["--request-count", "2"],
        ["--otel-url", &collector.otel_url()],
    ];
    let run = run(&server.url(), &flags.concat()).succeeded();
    let has_name =
        |received: &&Received| received.resource("service.name").as_deref() == Some("gpu-exporter");
    let received: Vec<Received> =
        collector.taken().into_iter().map(|export| Received(export.message)).collect();
    let of_gpus = received.iter().rfind(has_name).unwrap();
    assert_eq!(of_gpus.resource("service.instance.id").as_deref(), Some(&*exporter));
    for (index, watts) in WATTS.iter().enumerate() {
        let id = format!("GPU-{index}");
        let with = [("hw.id", &*id), ("hw.type", "gpu"), ("hw.vendor", "NVIDIA")];
        assert_eq!(of_gpus.number("hw.power", &with), *watts);
        assert!(of_gpus.number("hw.energy", &with) >= 5e6);
    }
    let units: Vec<&str> = ["hw.power", "hw.energy", "hw.gpu.memory.usage", "hw.gpu.utilization"]
        .map(|name| of_gpus.metric(name).unit.as_str())
        .to_vec();
    assert_eq!(units, ["W", "J", "By", "1"]);
    let bytes = of_gpus.number("hw.gpu.memory.usage", &[]);
    assert!((bytes - 1_048_576_000.0).abs() < 1.0, "{bytes}");
    assert_eq!(of_gpus.number("hw.gpu.utilization", &[("hw.gpu.task", "general")]), 0.75);
    // What follows from the energy is exported with the other results.
    let name = "aiperf.nvidia_energy_per_request";
    let has_result =
        |received: &&Received| received.metrics().iter().any(|metric| metric.name == name);
    let last = received.iter().rfind(has_result).unwrap();
    let energy = average(&run.summary(), "nvidia_energy_per_request");
    let with = [("aiperf.benchmark_phase", "profiling")];
    assert_eq!(last.number(name, &with), energy);
    assert_eq!(run.summary()["telemetry"]["reconciled"], true);
}
