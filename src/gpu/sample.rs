//! The samples of GPUs in one scrape.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::Fields;
use super::identity::Gpu;
use crate::metrics::gpu::Vendor;
use crate::server_metrics::snapshot::{Snapshot, Value};

/// The fields of a GPU at one time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GpuSample {
    pub(crate) gpu: Gpu,
    pub(crate) vendor: Vendor,
    /// The values by name, in the order of the fields and in their units.
    pub(crate) values: Vec<(Arc<str>, f64)>,
}

/// Returns the GPUs of a scrape with those of `fields` that are written to files, in the order of
/// the exposition.
#[must_use]
pub(crate) fn samples(snapshot: &Snapshot<'_>, fields: &Fields) -> Vec<GpuSample> {
    // The values by the index of their field, with the place of the name among those of the field.
    type ByField = BTreeMap<usize, (usize, f64)>;
    let mut found: Vec<(Gpu, Vendor, ByField)> = Vec::new();
    for family in &snapshot.families {
        for (index, place) in fields.named(&family.name) {
            let Some(field) = fields.get(*index).filter(|field| field.is_shown) else { continue };
            for point in &family.series {
                let Value::Number(value) = point.value else { continue };
                let labels = point.labels.iter().map(|(name, value)| (&**name, &**value));
                let Some(value) = field.read(value).value() else { continue };
                let Some(gpu) = Gpu::of(&labels) else { continue };
                let known = found.iter().position(|(known, ..)| known.is(&gpu));
                let at = known.unwrap_or_else(|| {
                    found.push((gpu, field.vendor, ByField::new()));
                    found.len() - 1
                });
                let values = &mut found[at].2;
                if values.get(index).is_none_or(|(known, _)| place < known) {
                    values.insert(*index, (*place, value));
                }
            }
        }
    }
    let sample = |(gpu, vendor, values): (Gpu, Vendor, ByField)| {
        let values = values.into_iter();
        let named = values
            .filter_map(|(index, (_, value))| Some((Arc::clone(&fields.get(index)?.tag), value)));
        GpuSample { gpu, vendor, values: named.collect() }
    };
    found.into_iter().map(sample).collect()
}
