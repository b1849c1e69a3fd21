//! The stored samples of each GPU.

use super::fields::{Field, Fields, Reading};
use super::identity::Gpu;
use crate::metrics::gpu::Vendor;
use crate::server_metrics::store::{Column, EndpointStore, Labels, Values};

/// Maximum number of GPUs of one exporter; others are left out.
const MAX_GPUS: usize = 4096;

/// The samples of one GPU.
#[derive(Debug)]
pub(super) struct GpuSeries<'a> {
    pub(super) gpu: Gpu,
    pub(super) vendor: Vendor,
    /// Values with the index of their field and the place of their name among those of the field,
    /// in this order. There are several for a field if labels change, or if the exporter repeats
    /// a value for each instance of a partitioned GPU.
    columns: Vec<(usize, usize, &'a Column)>,
}

impl<'a> GpuSeries<'a> {
    /// Returns the GPUs of `endpoint`, by index.
    pub(super) fn all(endpoint: &'a EndpointStore, fields: &Fields) -> Vec<Self> {
        let mut gpus: Vec<Self> = Vec::new();
        for family in &endpoint.families {
            for (index, place) in fields.named(&family.name) {
                let Some(field) = fields.get(*index) else { continue };
                for series in &family.series {
                    let Values::Number(column) = &series.values else { continue };
                    let Some(gpu) = Gpu::of(&pairs(&series.labels)) else { continue };
                    let known = gpus.iter().position(|known| known.gpu.is(&gpu));
                    if known.is_none() && gpus.len() == MAX_GPUS {
                        continue;
                    }
                    let at = known.unwrap_or_else(|| {
                        gpus.push(Self { gpu, vendor: field.vendor, columns: Vec::new() });
                        gpus.len() - 1
                    });
                    gpus[at].columns.push((*index, *place, column));
                }
            }
        }
        for gpu in &mut gpus {
            // Series of the same name stay in their order.
            gpu.columns.sort_by_key(|(field, place, _)| (*field, *place));
        }
        gpus.sort_by(|a, b| {
            (a.gpu.gpu_index, &a.gpu.gpu_uuid).cmp(&(b.gpu.gpu_index, &b.gpu.gpu_uuid))
        });
        gpus
    }

    /// Returns the values of the field with this index at each of `scrapes`, in the unit of the
    /// field, NaN where there is none or it is impossible; `None` if there never was one.
    pub(super) fn values(
        &self,
        (index, field): (usize, &Field),
        scrapes: usize,
    ) -> Option<Vec<f64>> {
        let mut values = vec![f64::NAN; scrapes];
        for (scrape, reading) in self.readings((index, field), scrapes) {
            if let Some(value) = reading.value().filter(|_| values[scrape].is_nan()) {
                values[scrape] = value;
            }
        }
        values.iter().any(|value| !value.is_nan()).then_some(values)
    }

    /// Iterates over the scrapes that have the field with this index, and what they say about it;
    /// a scrape may have several.
    pub(super) fn readings(
        &self,
        (index, field): (usize, &Field),
        scrapes: usize,
    ) -> impl Iterator<Item = (usize, Reading)> {
        let of_field = self.columns.iter().filter(move |(of, ..)| *of == index);
        let samples = of_field.flat_map(move |(.., column)| column.iter(0..scrapes));
        samples.map(|(scrape, sample)| (scrape, field.read(sample)))
    }
}

fn pairs(labels: &Labels) -> impl Iterator<Item = (&str, &str)> + Clone {
    labels.iter().map(|(name, value)| (&**name, &**value))
}
