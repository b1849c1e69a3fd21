//! Client health: whether the client itself kept up. Part of every result.
//!
//! [`Health`] collects the records of the measurement; together with statistics of the
//! queue, the workers and the schedule it yields [`ClientHealth`], which includes a verdict.
//! The rules are in `docs/decisions/client-health.md`. Unknown values are absent, never 0.
//!
//! [`LoadHealth`] is about the load: whether the server kept up with it. [`OutputHealth`] is about the
//! server's outputs.

mod bounds;
mod client_health;
mod collect;
mod combined;
mod ends;
mod errors;
mod host;
mod likely;
mod load;
mod load_failures;
mod load_health;
mod load_times;
mod output_health;
mod selfcheck;
mod throughput;
mod verdict;

pub use self::bounds::{Bound, ErrorBounds, MetricBounds};
pub use self::client_health::{
    ClientBounds, ClientHealth, Cpu, Queue, Reads, Reason, TimeStatistics, Verdict,
};
pub use self::collect::Health;
pub use self::errors::{ArrivalErrors, ClientErrors};
pub use self::host::{Frequency, HostActivity};
pub use self::load::LoadReport;
pub use self::load_health::{LoadHealth, LoadVerdict};
pub use self::load_times::LoadTimes;
pub use self::output_health::{
    OutputCounts, OutputHealth, Source, reasons_by_example as output_reasons_by_example,
};
pub use self::selfcheck::{Limits, Machine, SelfCheck};
pub use self::throughput::RateBounds;
pub use self::verdict::reasons_by_example;
