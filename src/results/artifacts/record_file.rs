//! The files to which each finished request is appended during the run.

use std::fmt::Debug;
use std::path::PathBuf;

use base::units::Nanos;
use measure::metrics::fields::Row;

use super::error::WriteFailure;
use crate::run::RunReport;

/// One second: the maximum time of data that is lost if the process is killed.
pub(super) const FLUSH_INTERVAL: Nanos = Nanos(1_000_000_000);

/// A file with an entry for each request, in the order of completion. It keeps its first error, and
/// writes nothing after it.
pub(super) trait RecordFile: Debug + Send {
    /// Appends a request.
    fn push(&mut self, row: &Row<'_>);

    /// Returns whether the files must be flushed before the next request.
    fn is_full(&self) -> bool {
        false
    }

    /// Passes complete entries to the operating system, where they outlast a kill.
    fn flush(&mut self);

    /// Closes the file, which may contain results of the run. Returns its path.
    fn finish(self: Box<Self>, report: &RunReport) -> Result<PathBuf, WriteFailure>;
}
