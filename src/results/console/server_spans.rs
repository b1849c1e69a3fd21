//! The line on the spans of the servers.

use crate::run::RunReport;
use crate::tables::format::count;

/// Says for how many requests the servers have sent spans, if these were received.
pub(super) fn line(report: &RunReport) -> Option<String> {
    let receiver = report.outcome.telemetry.as_ref()?.receiver.as_ref()?;
    Some(format!(
        "  server spans at {}: {} of {} requests joined, at most {:.1} s after their end",
        receiver.address,
        count(receiver.joined_requests),
        count(receiver.sampled_requests),
        receiver.longest_delay_seconds,
    ))
}
