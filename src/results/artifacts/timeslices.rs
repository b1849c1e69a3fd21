//! `profile_export_aiperf_timeslices.{json,csv}`: the statistics of each slice of the
//! profiling phase (`--slice-duration`).

use std::io::{self, Write};
use std::path::PathBuf;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use measure::metrics::Slices;
use measure::metrics::metric::MetricResult;
use measure::metrics::slices::Slice;

use super::csv::statistics;
use super::entry::Entry;
use super::error::WriteFailure;
use super::layout::Layout;
use super::sections::{Sections, number};
use super::whole::{pretty, write_whole};

const COLUMNS: [&str; 7] = ["Timeslice", "Start_NS", "End_NS", "Metric", "Unit", "Stat", "Value"];

/// Replaces both files. Slices are computed one by one for each file, so that only one is in
/// memory.
pub(super) fn write(
    layout: &Layout,
    slices: &Slices,
    input_config: &serde_json::Value,
) -> [Result<PathBuf, WriteFailure>; 2] {
    [
        write_whole(&layout.timeslices_json, |out| json(out, slices, input_config)),
        write_whole(&layout.timeslices_csv, |out| csv(out, slices)),
    ]
}

/// Writes an object for each slice, indented by two spaces.
fn json(out: &mut dyn Write, slices: &Slices, input_config: &serde_json::Value) -> io::Result<()> {
    pretty(out, &Summary { timeslices: Each(slices), input_config })
}

#[derive(Serialize)]
struct Summary<'a> {
    timeslices: Each<'a>,
    input_config: &'a serde_json::Value,
}

struct Each<'a>(&'a Slices);

impl Serialize for Each<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(slice, results)| One(slice, results)))
    }
}

struct One(Slice, Vec<MetricResult>);

impl Serialize for One {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(slice, results) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("start_ns", &slice.start_ns)?;
        map.serialize_entry("end_ns", &slice.end_ns)?;
        if !slice.is_complete {
            map.serialize_entry("is_complete", &false)?;
        }
        for result in results {
            map.serialize_entry(result.metric.tag.name(), &Entry::from_result(result))?;
        }
        map.end()
    }
}

/// Writes a row for each number, with the metrics of a slice in order of tag.
fn csv(out: &mut dyn Write, slices: &Slices) -> io::Result<()> {
    let rows = slices.iter().enumerate().flat_map(|(index, (slice, mut results))| {
        results.sort_by_key(|result| result.metric.tag.name());
        let place = [index as u64, slice.start_ns, slice.end_ns].map(|number| number.to_string());
        results.into_iter().flat_map(move |result| {
            let metric = [result.metric.header, result.metric.display_unit.label()];
            let first = [&place[..], &metric.map(str::to_owned)].concat();
            statistics(&result.stats)
                .filter(|(_, value)| value.is_finite())
                .map(move |(name, value)| [&first[..], &[name.to_string(), number(value)]].concat())
        })
    });
    Sections::new(out).write_with_header(COLUMNS.map(str::to_owned), rows)
}
