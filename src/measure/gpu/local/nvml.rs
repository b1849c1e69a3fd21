//! GPUs of NVIDIA by its library, which is loaded when it is first needed.

use std::ffi::OsStr;
use std::sync::OnceLock;

use nvml_wrapper::enum_wrappers::device::{Clock, PerformancePolicy, TemperatureSensor};
use nvml_wrapper::{Device, Nvml};

use super::Reading;

/// The name under which drivers install the library.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// What to do without the library.
const ADVICE: &str = "install NVIDIA's driver, or start dcgm-exporter and specify its URL";

/// Returns the GPUs of this machine, in the order of the library.
pub(super) fn read() -> Result<Vec<Reading>, String> {
    static LOADED: OnceLock<Result<Nvml, String>> = OnceLock::new();
    let nvml = LOADED.get_or_init(load).as_ref().map_err(Clone::clone)?;
    let count = nvml.device_count().map_err(|error| format!("NVML failed: {error}"))?;
    if count == 0 {
        return Err("NVML does not find any GPU on this machine".to_owned());
    }
    let gpu = |index| nvml.device_by_index(index).map(|device| reading(index, &device));
    // A GPU that fell off the bus does not hide the others.
    let gpus: Vec<Reading> = (0..count).filter_map(|index| gpu(index).ok()).collect();
    if gpus.is_empty() {
        return Err(format!("NVML cannot open any of {count} GPUs"));
    }
    Ok(gpus)
}

fn load() -> Result<Nvml, String> {
    if cfg!(target_env = "musl") {
        return Err(format!(
            "this program is linked statically and cannot load {LIBRARY}; build it with cargo \
             for this system instead, or start dcgm-exporter and specify its URL"
        ));
    }
    Nvml::builder()
        .lib_path(OsStr::new(LIBRARY))
        .init()
        .map_err(|error| format!("cannot use {LIBRARY}: {error}; {ADVICE}"))
}

/// Returns what the library reports of a GPU. What a GPU does not support is absent.
fn reading(index: u32, device: &Device<'_>) -> Reading {
    let mut labels = vec![("gpu", index.to_string()), ("device", format!("nvidia{index}"))];
    labels.extend(device.uuid().ok().map(|uuid| ("UUID", uuid)));
    labels.extend(device.name().ok().map(|name| ("modelName", name)));
    labels.extend(device.pci_info().ok().map(|pci| ("pci_bus_id", pci.bus_id)));
    let mut gpu = Reading { labels, values: Vec::new() };
    let used = device.utilization_rates().ok();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let stalled = device.violation_status(PerformancePolicy::Power).ok();
    let reasons = device.current_throttle_reasons().ok();
    // Milliwatts, as DCGM's field is in watts.
    gpu.put("DCGM_FI_DEV_POWER_USAGE", device.power_usage().ok().map(|mw| f64::from(mw) / 1e3));
    let energy = device.total_energy_consumption().ok();
    gpu.put("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", energy.map(|millijoules| millijoules as f64));
    gpu.put("DCGM_FI_DEV_GPU_UTIL", used.as_ref().map(|used| f64::from(used.gpu)));
    gpu.put("DCGM_FI_DEV_MEM_COPY_UTIL", used.as_ref().map(|used| f64::from(used.memory)));
    gpu.put("DCGM_FI_DEV_FB_USED", device.memory_info().ok().map(|memory| mib(memory.used)));
    gpu.put("DCGM_FI_DEV_GPU_TEMP", device.temperature(TemperatureSensor::Gpu).ok().map(f64::from));
    let decoder = device.decoder_utilization().ok();
    gpu.put("DCGM_FI_DEV_DEC_UTIL", decoder.map(|used| f64::from(used.utilization)));
    let encoder = device.encoder_utilization().ok();
    gpu.put("DCGM_FI_DEV_ENC_UTIL", encoder.map(|used| f64::from(used.utilization)));
    gpu.put("DCGM_FI_DEV_POWER_VIOLATION", stalled.map(|time| time.violation_time as f64));
    gpu.put("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", reasons.map(|bits| bits.bits() as f64));
    gpu.put("DCGM_FI_DEV_SM_CLOCK", device.clock_info(Clock::SM).ok().map(f64::from));
    gpu
}
