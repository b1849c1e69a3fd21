use std::fs;
use std::path::Path;

use super::*;
use crate::gpu::fields::Fields;
use crate::gpu::sample::samples;
use crate::server_metrics::exposition::{Exposition, Format};
use crate::server_metrics::snapshot::Snapshot;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn expose_files(root: &Path) -> Result<String, String> {
    expose(&Local::Amd.url(Some(root.to_str().unwrap())).unwrap())
}

#[test]
fn files_of_the_kernel_are_fields_of_amd() {
    let root = tempfile::tempdir().unwrap();
    let missing = expose_files(root.path()).unwrap_err();
    assert!(missing.starts_with("cannot read ") && missing.contains("start AMD's"), "{missing}");
    write(
        root.path(),
        &[
            ("class/drm/card0/device/vendor", "0x10de\n"),
            ("class/drm/card0-DP-1/status", "connected\n"),
        ],
    );
    let none = expose_files(root.path()).unwrap_err();
    assert!(none.starts_with("there are no GPUs of AMD in "), "{none}");
    write(
        root.path(),
        &[
            ("class/drm/card1/device/vendor", "0x1002\n"),
            ("class/drm/card1/device/unique_id", "abc\n"),
            ("class/drm/card1/device/product_name", "AMD \"MI300X\"\n"),
            ("class/drm/card1/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:83:00.0\n"),
            ("class/drm/card1/device/gpu_busy_percent", "97\n"),
            ("class/drm/card1/device/mem_info_vram_used", "1073741824\n"),
            ("class/drm/card1/device/hwmon/hwmon4/power1_average", "312000000\n"),
            ("class/drm/card1/device/hwmon/hwmon4/temp1_label", "edge\n"),
            ("class/drm/card1/device/hwmon/hwmon4/temp1_input", "41000\n"),
            ("class/drm/card1/device/hwmon/hwmon4/temp2_label", "junction\n"),
            ("class/drm/card1/device/hwmon/hwmon4/temp2_input", "52000\n"),
            ("class/drm/card10/device/vendor", "0x1002\n"),
            ("class/drm/card10/device/hwmon/hwmon9/power1_input", "5000000\n"),
            ("class/drm/card10/device/hwmon/hwmon9/temp1_input", "30000\n"),
        ],
    );
    let text = expose_files(root.path()).unwrap();
    let exposition = Exposition::parse(text.as_bytes(), Format::Text).unwrap();
    let found = samples(&Snapshot::from_exposition(&exposition), &Fields::default());
    let shown: Vec<_> = found
        .iter()
        .map(|gpu| {
            let values = gpu.values.iter().map(|(tag, value)| (tag.to_string(), *value));
            (gpu.gpu.gpu_index, &*gpu.gpu.gpu_uuid, values.collect::<Vec<_>>())
        })
        .collect();
    let value = |tag: &str, value| (tag.to_owned(), value);
    assert_eq!(
        shown,
        [
            (
                0,
                "abc",
                vec![
                    value("amd_power", 312.0),
                    value("amd_gfx_activity", 97.0),
                    value("amd_memory_used", 1.073_741_824),
                    value("amd_temperature", 52.0),
                ]
            ),
            (1, "unknown-1", vec![value("amd_power", 5.0), value("amd_temperature", 30.0)]),
        ]
    );
    assert_eq!(found[0].gpu.gpu_model_name, "AMD \"MI300X\"");
    assert_eq!(found[0].gpu.pci_bus_id.as_deref(), Some("0000:83:00.0"));
}
