//! GPUs of AMD by the files of Linux' driver, since its library can only be called with `unsafe`.
//!
//! Source: the kernel's documentation, "Misc AMDGPU driver information" and "GPU power/thermal
//! controls and monitoring".

use std::fs;
use std::path::{Path, PathBuf};

use url::Url;

use super::Reading;

/// The vendor's number in `device/vendor`.
const AMD: &str = "0x1002";

/// Returns the GPUs whose files are below the directory in the path of `url`, or else `/sys`.
pub(super) fn read(url: &Url) -> Result<Vec<Reading>, String> {
    let root = percent_encoding::percent_decode_str(url.path()).decode_utf8_lossy().into_owned();
    let root = if root.trim_matches('/').is_empty() { "/sys".to_owned() } else { root };
    let place = Path::new(&root).join("class/drm");
    let advice = "start AMD's device-metrics-exporter, and specify its URL";
    let entries = fs::read_dir(&place)
        .map_err(|error| format!("cannot read {}: {error}; {advice}", place.display()))?;
    let number = |path: &Path| -> Option<u64> {
        path.file_name()?.to_str()?.strip_prefix("card")?.parse().ok()
    };
    let mut cards: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((number(&entry.path())?, entry.path().join("device"))))
        .filter(|(_, device)| text(&device.join("vendor")).as_deref() == Some(AMD))
        .collect();
    cards.sort();
    if cards.is_empty() {
        return Err(format!("there are no GPUs of AMD in {}; {advice}", place.display()));
    }
    Ok((0..).zip(&cards).map(|(index, (_, device))| reading(index, device)).collect())
}

/// Returns what the files of a GPU contain; what a GPU does not have is absent.
fn reading(index: u64, device: &Path) -> Reading {
    let mut labels = vec![("gpu_id", index.to_string())];
    labels.extend(text(&device.join("unique_id")).map(|id| ("serial_number", id)));
    let model = text(&device.join("product_name")).or_else(|| text(&device.join("device")));
    labels.extend(model.map(|model| ("card_series", model)));
    let slot = text(&device.join("uevent")).and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME=")).map(str::to_owned)
    });
    labels.extend(slot.map(|slot| ("pci_bus_id", slot)));
    let mut gpu = Reading { labels, values: Vec::new() };
    let of_monitor = |name: &str| number(&monitor(device)?.join(name));
    let of_device = |name: &str| number(&device.join(name));
    // Microwatts, microjoules, bytes, thousandths of a degree.
    let power = of_monitor("power1_average").or_else(|| of_monitor("power1_input"));
    gpu.put("gpu_package_power", power.map(|microwatts| microwatts / 1e6));
    gpu.put("gpu_energy_consumed", of_monitor("energy1_input"));
    gpu.put("gpu_gfx_activity", of_device("gpu_busy_percent"));
    gpu.put("gpu_umc_activity", of_device("mem_busy_percent"));
    gpu.put("gpu_used_vram", of_device("mem_info_vram_used").map(|bytes| bytes / 1_048_576.0));
    let degrees = |label: &str| temperature(device, label).map(|thousandths| thousandths / 1e3);
    gpu.put("gpu_junction_temperature", degrees("junction"));
    let edge = degrees("edge").or_else(|| of_monitor("temp1_input").map(|value| value / 1e3));
    gpu.put("gpu_edge_temperature", edge);
    gpu
}

/// Returns the directory of a GPU's sensors.
fn monitor(device: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(device.join("hwmon")).ok()?.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found.into_iter().next()
}

/// Returns the temperature of the sensor with this label.
fn temperature(device: &Path, label: &str) -> Option<f64> {
    let monitor = monitor(device)?;
    let is_labelled = |sensor: &u32| {
        text(&monitor.join(format!("temp{sensor}_label"))).is_some_and(|text| text == label)
    };
    let sensor = (1..=8).find(is_labelled)?;
    number(&monitor.join(format!("temp{sensor}_input")))
}

fn number(path: &Path) -> Option<f64> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
