//! All that follow the runs of a command: the view on the terminal, the HTTP API, and MLflow.

use std::io::Write as _;
use std::sync::Arc;

use base::interrupt::Interrupter;
use results::api::{Api, Listener};
use results::follow::Followers;
use results::mlflow::Tracker;
use results::status::Status;
use results::terminal::{Stderr, View};

use crate::config::{RunConfig, Ui};

/// The followers that the settings of a command ask for.
pub(super) struct Audience {
    status: Arc<Status>,
    view: Arc<View>,
    tracker: Option<Arc<Tracker>>,
    api: Option<Arc<Api>>,
}

impl Audience {
    /// Starts the API that `listener` has reserved an address for. The view is closed.
    pub(super) fn start(
        config: &RunConfig,
        listener: Option<Listener>,
        interrupter: &Interrupter,
    ) -> anyhow::Result<Self> {
        let status = Status::new(interrupter.interrupt(), listener.is_some());
        let grace = config.api.grace;
        let serve = |it: Listener| it.serve(Arc::clone(&status), interrupter.clone(), grace);
        let api = listener.map(serve).transpose()?;
        if let Some(api) = api.as_ref().filter(|_| config.ui != Ui::None) {
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = writeln!(Stderr, "the HTTP API is at {}", api.url());
            if let Some(token) = api.generated_token() {
                let _ = writeln!(Stderr, "the token of the HTTP API is {}", token.expose());
            }
        }
        let tracker = config.mlflow.clone().map(|it| Tracker::new(it, Arc::clone(&status)));
        let view = View::new(config.ui, config.stats_interval, interrupter, &status);
        Ok(Self {
            status,
            view: Arc::new(view),
            tracker: tracker.map(Arc::new),
            api: api.map(Arc::new),
        })
    }

    /// Returns the view on the terminal.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Returns those who follow a run that is about to start.
    pub(super) fn followers(&self) -> Followers {
        let Self { status, view, tracker, api } = self;
        let mut followers = Followers::default();
        // The others know that a run has ended only once MLflow has its files.
        if let Some(tracker) = tracker {
            followers.add(Arc::<Tracker>::clone(tracker));
        }
        if tracker.is_some() || api.is_some() || view.needs_status() {
            followers.add(Arc::<Status>::clone(status));
        }
        followers.add(Arc::<View>::clone(view));
        // The API answers for a while after the others have ended.
        if let Some(api) = api {
            followers.add(Arc::<Api>::clone(api));
        }
        followers
    }
}
