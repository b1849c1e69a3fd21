//! Who watches the runs of a command besides the terminal, from the first run to the last file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::profile::Concluded;
use super::stderr::Stderr;
use crate::api::{Api, Listener};
use crate::config::{RunConfig, Ui};
use crate::interrupt::{Interrupt, Interrupter};
use crate::mlflow::{self, Tracking};
use crate::run::RunDescription;
use crate::status::Status;
use crate::units::{Clock, Nanos};

/// The status of the runs, and those who watch it.
pub(super) struct Watch {
    status: Arc<Status>,
    interrupt: Interrupt,
    api: Option<Api>,
    /// How long the API answers after the files are written.
    grace: Nanos,
    /// The MLflow server that each run is written to.
    mlflow: Option<mlflow::Config>,
    /// Whether anybody but the live view needs the status.
    is_needed: bool,
}

impl Watch {
    /// Starts the API that `listener` has reserved an address for.
    pub(super) fn start(
        config: &RunConfig,
        listener: Option<Listener>,
        interrupter: &Interrupter,
    ) -> anyhow::Result<Self> {
        let status = Status::new(interrupter.interrupt(), listener.is_some());
        let serve = |it: Listener| it.serve(Arc::clone(&status), interrupter.clone());
        let api = listener.map(serve).transpose()?;
        if let Some(api) = api.as_ref().filter(|_| config.ui != Ui::None) {
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = writeln!(Stderr, "the HTTP API is at {}", api.url());
            if let Some(token) = api.generated_token() {
                let _ = writeln!(Stderr, "the token of the HTTP API is {}", token.expose());
            }
        }
        let has_blocks = config.ui != Ui::None && config.stats_interval.is_some();
        let mlflow = config.mlflow.clone();
        let is_needed = api.is_some() || has_blocks || mlflow.is_some();
        let interrupt = interrupter.interrupt();
        Ok(Self { status, interrupt, api, grace: config.api.grace, mlflow, is_needed })
    }

    /// Nobody watches.
    pub(super) fn nobody() -> Self {
        let interrupt = Interrupt::never();
        let status = Status::new(interrupt.clone(), false);
        Self { status, interrupt, api: None, grace: Nanos::ZERO, mlflow: None, is_needed: false }
    }

    /// Returns the status of the runs.
    pub(super) const fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Returns whether anybody but the live view needs the status.
    pub(super) const fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// Begins to write the run to MLflow, if that is wanted.
    pub(super) fn track(&self, run: &RunDescription) -> Option<Tracking> {
        let config = self.mlflow.as_ref()?;
        Some(Tracking::start(config, run, Arc::clone(&self.status)))
    }

    /// The run has ended and written its files, except that of `tracking`, which is added to them.
    pub(super) fn ended(&self, concluded: &mut Concluded, tracking: Option<Tracking>) {
        let Concluded { report, layout, files, .. } = concluded;
        let sent = tracking
            .and_then(|tracking| tracking.finish(report, layout, &self.interrupt.since_now()));
        if let Ok(files) = files {
            files.extend(sent);
            self.status.wrote(files.iter().cloned());
        }
        // A directory with files of another run is not used, so all with these names are its own.
        self.status.wrote(layout.clone().all_files());
        self.status.ended(report, &layout.summary_json);
    }

    /// The command has written `files`, besides those of its runs.
    pub(super) fn wrote<'f>(&self, files: impl IntoIterator<Item = &'f PathBuf>) {
        self.status.wrote(files.into_iter().cloned());
    }

    /// All files of the command are in `directory`, unless some are missing. The API answers for a
    /// while, or until a signal.
    pub(super) fn end(&self, directory: &Path, is_partial: bool) {
        self.status.exported(directory, is_partial);
        if self.api.is_some() {
            self.interrupt.since_now().sleep_until(Clock::now() + self.grace);
        }
    }
}
