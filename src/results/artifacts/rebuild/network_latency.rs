//! The round-trip time of the network from the files of probes.

use std::path::Path;

use client::network_latency::RoundTrips;

use super::line_file::{Faults, LineFile};
use crate::artifacts::network_latency::ProbeLine;
use crate::run::RunDescription;

/// Returns the round-trip time of `run` in nanoseconds: the given one, or the mean of the probes in
/// `files`; `None` if neither exists. Each line with a probe is passed to `take`. Notes about the
/// files are added to `notes`.
pub(super) fn round_trip_ns<'a>(
    run: &RunDescription,
    files: impl IntoIterator<Item = &'a Path>,
    notes: &mut Vec<String>,
    mut take: impl FnMut(&[u8]),
) -> Option<f64> {
    if let Some(given) = run.setup.round_trip {
        return Some(given.0 as f64);
    }
    let mut round_trips = RoundTrips::default();
    for path in files.into_iter().filter(|path| path.exists()) {
        let read = LineFile::open(path).and_then(|mut file| {
            file.read_rest(|line| {
                let probe = ProbeLine::parse(line)?;
                if let Some(nanos) = probe.round_trip() {
                    round_trips.add(nanos);
                }
                take(line);
                Ok(())
            })
        });
        match read {
            Err(why) => notes.push(format!("{} cannot be read completely: {why}", path.display())),
            Ok((note, faults)) => {
                notes.extend(note);
                notes.extend(faults.map(|Faults { first: (line, reason), count }| {
                    format!(
                        "{}: {count} lines are not probes and are ignored; the first is line \
                         {line}: {reason}",
                        path.display()
                    )
                }));
            }
        }
    }
    round_trips.mean_ns()
}
