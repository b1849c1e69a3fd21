//! The stored samples of each GPU.

use super::fields::{Field, Fields};
use super::identity::Gpu;
use crate::metrics::gpu::Vendor;
use crate::server_metrics::store::{Column, EndpointStore, Labels, Values};

/// Maximum number of GPUs of one exporter; others are left out.
const MAX_GPUS: usize = 4096;

/// The lowest of the values by which DCGM expresses that it does not have one.
const BLANK: f64 = 9.223_372_036_854e18;

/// Returns whether a value means that there is none.
pub(super) fn is_blank(value: f64) -> bool {
    value.abs() >= BLANK
}

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
    /// field, NaN where there is none; `None` if there never was one.
    pub(super) fn values(
        &self,
        (index, field): (usize, &Field),
        scrapes: usize,
    ) -> Option<Vec<f64>> {
        let of_field = self.columns.iter().filter(|(of, ..)| *of == index);
        let mut values = vec![f64::NAN; scrapes];
        for (.., column) in of_field {
            for (scrape, value) in column.iter(0..scrapes) {
                if values[scrape].is_nan() && !is_blank(value) {
                    values[scrape] = value * field.scale;
                }
            }
        }
        values.iter().any(|value| !value.is_nan()).then_some(values)
    }
}

fn pairs(labels: &Labels) -> impl Iterator<Item = (&str, &str)> + Clone {
    labels.iter().map(|(name, value)| (&**name, &**value))
}
