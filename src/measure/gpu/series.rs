//! The stored samples of each GPU.

use super::fields::{Field, Fields, Reading};
use super::identity::{self, Gpu};
use crate::metrics::gpu::Vendor;
use crate::server_metrics::store::{Column, EndpointStore, Labels, Values};

/// Maximum number of GPUs of one exporter; others are left out.
const MAX_GPUS: usize = 4096;

/// The samples of one GPU.
#[derive(Debug)]
pub(super) struct GpuSeries<'a> {
    pub(super) gpu: Gpu,
    pub(super) vendor: Vendor,
    /// Its series, in the order of fields and of the names of a field. There are several for a field if
    /// labels change, or if the GPU is partitioned.
    columns: Vec<Series<'a>>,
}

/// The values of a field.
#[derive(Debug)]
struct Series<'a> {
    /// Index of the field.
    field: usize,
    /// Place of the name among those of the field.
    place: usize,
    /// The instance of a partitioned GPU.
    instance: Option<&'a str>,
    column: &'a Column,
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
                    let Some(gpu) = Gpu::from_labels(&pairs(&series.labels)) else { continue };
                    let known = gpus.iter().position(|known| known.gpu.is(&gpu));
                    if known.is_none() && gpus.len() == MAX_GPUS {
                        continue;
                    }
                    let at = known.unwrap_or_else(|| {
                        gpus.push(Self { gpu, vendor: field.vendor, columns: Vec::new() });
                        gpus.len() - 1
                    });
                    let instance = identity::instance(pairs(&series.labels));
                    let (field, place) = (*index, *place);
                    gpus[at].columns.push(Series { field, place, instance, column });
                }
            }
        }
        for gpu in &mut gpus {
            // Series of the same name stay in their order.
            gpu.columns.sort_by_key(|series| (series.field, series.place));
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
        let mut of_instances: Vec<(Option<&str>, Vec<f64>)> = Vec::new();
        for series in self.columns.iter().filter(|series| series.field == index) {
            // What is not divided is repeated for each instance.
            let instance = series.instance.filter(|_| field.is_divided());
            let known = of_instances.iter().position(|(have, _)| *have == instance);
            let at = known.unwrap_or_else(|| {
                of_instances.push((instance, vec![f64::NAN; scrapes]));
                of_instances.len() - 1
            });
            let values = &mut of_instances[at].1;
            for (scrape, sample) in series.column.iter(0..scrapes) {
                if let Some(value) = field.read(sample).value().filter(|_| values[scrape].is_nan())
                {
                    values[scrape] = value;
                }
            }
        }
        // An exporter may report the whole GPU besides its instances.
        let whole = of_instances.iter().position(|(instance, _)| instance.is_none());
        let value = |scrape: usize| {
            let of_whole =
                whole.map(|at| of_instances[at].1[scrape]).filter(|value| !value.is_nan());
            let parts = of_instances.iter().map(|(_, values)| values[scrape]);
            let sum = parts.filter(|value| !value.is_nan()).reduce(|sum, value| sum + value);
            of_whole.or(sum).unwrap_or(f64::NAN)
        };
        let values: Vec<f64> = (0..scrapes).map(value).collect();
        values.iter().any(|value| !value.is_nan()).then_some(values)
    }

    /// Iterates over the scrapes that have the field with this index, and their values of it;
    /// a scrape may have several.
    pub(super) fn readings(
        &self,
        (index, field): (usize, &Field),
        scrapes: usize,
    ) -> impl Iterator<Item = (usize, Reading)> {
        let of_field = self.columns.iter().filter(move |series| series.field == index);
        let samples = of_field.flat_map(move |series| series.column.iter(0..scrapes));
        samples.map(|(scrape, sample)| (scrape, field.read(sample)))
    }
}

fn pairs(labels: &Labels) -> impl Iterator<Item = (&str, &str)> + Clone {
    labels.iter().map(|(name, value)| (&**name, &**value))
}
