//! The GPUs.

use serde_json::{Value, json};

use measure::gpu::report::{GpuEntry, display};

use super::Run;
use crate::report::document::Table;

/// The columns with the mean of a field, by the end of its name.
const MEANS: [(&str, &[&str]); 4] = [
    ("Power (W)", &["power_usage", "amd_power"]),
    ("Utilization (%)", &["gpu_utilization", "gfx_activity"]),
    ("Memory (GB)", &["memory_used"]),
    ("Temperature (°C)", &["temperature"]),
];

impl Run<'_> {
    /// Returns the means and the energy of each GPU, if there are any.
    pub(super) fn gpus(&self) -> Option<Table> {
        let gpus = self.report.outcome.gpus.as_ref()?;
        let row = |exporter: &str, entry: &GpuEntry| {
            let gpu = &entry.gpu;
            let name = format!("{} GPU {}", display(exporter), gpu.gpu_index);
            let means = MEANS.iter().map(|(_, ends)| {
                let has_suffix = |tag: &str| ends.iter().any(|end| tag.ends_with(end));
                let found = entry.metrics.iter().find(|metric| has_suffix(&metric.tag));
                found.map_or(Value::Null, |metric| json!(metric.avg))
            });
            let energy = entry.energy.map(|energy| [energy.joules, energy.error()]);
            let [joules, error] =
                energy.map_or([Value::Null, Value::Null], |of| of.map(Value::from));
            let idle = json!(entry.idle_watts);
            [json!(name), json!(gpu.gpu_model_name)]
                .into_iter()
                .chain(means)
                .chain([idle, joules, error])
                .collect()
        };
        let rows: Vec<Vec<Value>> = gpus
            .exporters
            .iter()
            .flat_map(|exporter| exporter.gpus.iter().map(|entry| row(&exporter.url, entry)))
            .collect();
        let rest = ["Idle power (W)", "Energy (J)", "± (J)"];
        let columns = ["GPU", "Model"].into_iter().chain(MEANS.map(|(title, _)| title)).chain(rest);
        (!rows.is_empty()).then(|| Table {
            title: "GPUs".to_owned(),
            note: "Means and energy of the measurement.".to_owned(),
            columns: columns.map(str::to_owned).collect(),
            rows,
            requests: Vec::new(),
        })
    }
}
