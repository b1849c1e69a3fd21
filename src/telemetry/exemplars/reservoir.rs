//! The exemplars of a series since its last export: few, whatever the number of values.

use std::collections::BTreeMap;

use client::record::TraceContext;

/// A value and the request that it is from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// The value in the unit of the instrument.
    pub(super) value: f64,
    /// When it was recorded, in nanoseconds since the epoch.
    pub(super) at: u64,
    /// The trace and the span of the whole request.
    pub(super) context: TraceContext,
}

impl Sample {
    /// Returns a random number that all values of a request have in common: the random part of its
    /// trace ID.
    fn rank(&self) -> Option<&[u8; 7]> {
        self.context.trace_id.last_chunk()
    }
}

/// Keeps some of the values that it is offered.
#[derive(Debug)]
pub(crate) struct Reservoir {
    choice: Choice,
    /// The exemplars of the last export.
    told: Vec<Sample>,
}

/// Which values are kept.
#[derive(Debug)]
enum Choice {
    /// The largest value of each bucket.
    Buckets {
        /// Upper bounds of the buckets, without the last.
        bounds: Vec<f64>,
        kept: BTreeMap<usize, Sample>,
    },
    /// Values of different requests: the largest one, and a uniform sample of the others. Of
    /// several values of a request, the largest counts.
    Values { room: usize, kept: Vec<Sample> },
}

impl Reservoir {
    /// Creates a reservoir for a histogram with these upper bounds.
    pub(super) fn of_buckets(bounds: &[f64]) -> Self {
        Self::new(Choice::Buckets { bounds: bounds.to_vec(), kept: BTreeMap::new() })
    }

    /// Creates a reservoir for `room` values, at least one.
    pub(super) const fn of_values(room: usize) -> Self {
        Self::new(Choice::Values { room, kept: Vec::new() })
    }

    const fn new(choice: Choice) -> Self {
        Self { choice, told: Vec::new() }
    }

    /// Returns the exemplars of a point that covers the whole run: those of the latest interval,
    /// `fresh`, and those of earlier ones for the buckets, or the series, that it has none of.
    pub(super) fn with_earlier(&mut self, fresh: &[Sample]) -> Vec<Sample> {
        match &self.choice {
            Choice::Buckets { bounds, .. } => {
                let renewed: Vec<_> =
                    fresh.iter().map(|sample| bucket(bounds, sample.value)).collect();
                self.told.retain(|earlier| !renewed.contains(&bucket(bounds, earlier.value)));
                self.told.extend(fresh);
            }
            Choice::Values { .. } if !fresh.is_empty() => self.told = fresh.to_vec(),
            Choice::Values { .. } => {}
        }
        self.told.clone()
    }

    pub(super) fn offer(&mut self, sample: Sample) {
        match &mut self.choice {
            Choice::Buckets { bounds, kept } => {
                let have = kept.entry(bucket(bounds, sample.value)).or_insert(sample);
                if sample.value > have.value {
                    *have = sample;
                }
            }
            Choice::Values { room, kept } => {
                let same = kept.iter_mut().find(|have| have.context == sample.context);
                if let Some(same) = same {
                    if sample.value > same.value {
                        *same = sample;
                    }
                    return;
                }
                kept.push(sample);
                if kept.len() > *room {
                    // The requests with the lowest of the random numbers are a uniform sample.
                    let places = || kept.iter().enumerate();
                    let largest = places().max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
                    let spared = largest.filter(|_| *room > 1).map(|(place, _)| place);
                    let others = places().filter(|(place, _)| Some(*place) != spared);
                    let last = others.max_by_key(|(_, have)| have.rank());
                    let last = last.map_or(0, |(place, _)| place);
                    kept.swap_remove(last);
                }
            }
        }
    }

    /// Removes and returns the values that were recorded until `time`; later ones are not part of a
    /// point with that time.
    pub(super) fn take_until(&mut self, time: u64) -> Vec<Sample> {
        match &mut self.choice {
            Choice::Buckets { kept, .. } => {
                let taken = kept.values().filter(|have| have.at <= time).copied().collect();
                kept.retain(|_, have| have.at > time);
                taken
            }
            Choice::Values { kept, .. } => kept.extract_if(.., |have| have.at <= time).collect(),
        }
    }
}

/// Returns the index of the bucket of `value`. Upper bounds belong to their buckets.
fn bucket(bounds: &[f64], value: f64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}
