//! The samples of GPUs in one scrape.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::Fields;
use super::identity::{self, Gpu};
use crate::metrics::gpu::Vendor;
use crate::server_metrics::snapshot::{Snapshot, Value};

/// The fields of a GPU at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuSample {
    pub gpu: Gpu,
    pub vendor: Vendor,
    /// The values by name, in the order of the fields and in their units.
    pub values: Vec<(Arc<str>, f64)>,
}

/// Returns the GPUs of a scrape with those of `fields` that are written to files, in the order of
/// the exposition.
#[must_use]
pub fn samples(snapshot: &Snapshot<'_>, fields: &Fields) -> Vec<GpuSample> {
    // The place of the name among those of the field, and the value of each instance of the GPU.
    type Values<'a> = (usize, BTreeMap<Option<&'a str>, f64>);
    // By the index of the field.
    type ByField<'a> = BTreeMap<usize, Values<'a>>;
    let mut found: Vec<(Gpu, Vendor, ByField<'_>)> = Vec::new();
    for family in &snapshot.families {
        for (index, place) in fields.named(&family.name) {
            let Some(field) = fields.get(*index).filter(|field| field.is_shown) else { continue };
            for point in &family.series {
                let Value::Number(value) = point.value else { continue };
                let labels = point.labels.iter().map(|(name, value)| (&**name, &**value));
                let Some(value) = field.read(value).value() else { continue };
                let Some(gpu) = Gpu::from_labels(&labels) else { continue };
                let known = found.iter().position(|(known, ..)| known.is(&gpu));
                let at = known.unwrap_or_else(|| {
                    found.push((gpu, field.vendor, ByField::new()));
                    found.len() - 1
                });
                let (known, values) =
                    found[at].2.entry(*index).or_insert_with(|| (*place, BTreeMap::new()));
                if place < known {
                    (*known, *values) = (*place, BTreeMap::new());
                }
                if place == known {
                    let instance = identity::instance(labels).filter(|_| field.is_divided());
                    values.entry(instance).or_insert(value);
                }
            }
        }
    }
    let sample = |(gpu, vendor, values): (Gpu, Vendor, ByField<'_>)| {
        let value = |values: &BTreeMap<Option<&str>, f64>| {
            values.get(&None).copied().unwrap_or_else(|| values.values().sum())
        };
        let values = values.into_iter();
        let named = values.filter_map(|(index, (_, values))| {
            Some((Arc::clone(&fields.get(index)?.tag), value(&values)))
        });
        GpuSample { gpu, vendor, values: named.collect() }
    };
    found.into_iter().map(sample).collect()
}
