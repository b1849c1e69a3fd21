//! Which GPU a series belongs to, by its labels.

use serde::{Deserialize, Serialize};

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its index on its host.
    pub gpu_index: u64,
    pub gpu_uuid: String,
    /// Its model.
    pub gpu_model_name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pci_bus_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod_name: Option<String>,
}

impl Gpu {
    /// Reads the labels of dcgm-exporter, or those of AMD's exporter; `None` if they do not name a
    /// GPU.
    pub(crate) fn from_labels<'a>(
        labels: &(impl Iterator<Item = (&'a str, &'a str)> + Clone),
    ) -> Option<Self> {
        let get = |name: &str| {
            let mut named = labels.clone().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            named.next().map(|(_, value)| value).filter(|value| !value.is_empty())
        };
        let owned = |name| get(name).map(str::to_owned);
        let gpu_index = get("gpu").or_else(|| get("gpu_id"))?.parse().ok()?;
        Some(Self {
            gpu_index,
            gpu_uuid: owned("uuid")
                .or_else(|| owned("gpu_uuid"))
                .or_else(|| owned("serial_number"))
                .unwrap_or_else(|| format!("unknown-{gpu_index}")),
            gpu_model_name: owned("modelName")
                .or_else(|| owned("card_series"))
                .or_else(|| owned("card_model"))
                .unwrap_or_else(|| "unknown".to_owned()),
            pci_bus_id: owned("pci_bus_id"),
            device: owned("device"),
            hostname: owned("hostname"),
            namespace: owned("namespace"),
            pod_name: owned("pod"),
        })
    }

    /// Returns whether both are the same GPU of an exporter. Other labels may change when a pod
    /// begins or ends.
    pub fn is(&self, other: &Self) -> bool {
        self.gpu_index == other.gpu_index && self.gpu_uuid == other.gpu_uuid
    }
}

/// Labels with the instance of a partitioned GPU, of dcgm-exporter and of AMD's exporter.
const INSTANCE: [&str; 2] = ["GPU_I_ID", "gpu_partition_id"];

/// Returns the instance of a partitioned GPU that a series is about.
pub(super) fn instance<'a>(
    mut labels: impl Iterator<Item = (&'a str, &'a str)>,
) -> Option<&'a str> {
    let is_instance = |name: &str| INSTANCE.iter().any(|label| name.eq_ignore_ascii_case(label));
    let (_, instance) = labels.find(|(name, _)| is_instance(name))?;
    (!instance.is_empty()).then_some(instance)
}
