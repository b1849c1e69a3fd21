//! The round-trip time of the network during a run.

use base::interrupt::Interrupt;
use base::units::{Clock, Nanos};
use client::network_latency::{Config, Measured, Prober};
use client::transport::Target;
use results::artifacts::ArtifactSet;
use results::artifacts::network_latency::ProbeLines;

use crate::config::RunConfig;

/// The round-trip time while it is being measured, or the given one.
pub(crate) enum RoundTrip {
    Given(Nanos),
    Probed(Prober<ProbeLines>),
}

impl RoundTrip {
    /// Starts the measurement if it is configured; `None` if there is nothing to know, or nothing
    /// will be sent.
    pub(crate) fn start(
        config: &RunConfig,
        clock: Clock,
        interrupt: &Interrupt,
        files: &ArtifactSet,
    ) -> anyhow::Result<Option<Self>> {
        Ok(match &config.network_latency {
            None => None,
            Some(Config::Mean(mean)) => Some(Self::Given(*mean)),
            Some(Config::Automatic(_)) if interrupt.is_draining() => None,
            Some(Config::Automatic(probing)) => {
                let targets = config.server.urls.iter().map(|url| Target::new(url.expose()));
                let targets = targets.collect::<Result<Vec<_>, _>>()?;
                let ip_version = config.transport.ip_version;
                let lines = files.open_probes()?;
                let prober = Prober::start(probing.clone(), &targets, ip_version, clock, lines)?;
                Some(Self::Probed(prober))
            }
        })
    }

    /// Notes the end of the load.
    pub(crate) fn load_ended(&self) {
        if let Self::Probed(prober) = self {
            prober.load_ended();
        }
    }

    /// Ends the measurement and returns the round-trip time in nanoseconds; `None` after a warning
    /// if no connect succeeded.
    pub(crate) fn finish(self, interrupt: &Interrupt, files: &mut ArtifactSet) -> Option<f64> {
        let prober = match self {
            Self::Given(mean) => return Some(mean.0 as f64),
            Self::Probed(prober) => prober,
        };
        let Some(Measured { round_trips, last_error, sink }) = prober.finish(interrupt) else {
            tracing::error!("the thread that measures the network ended unexpectedly");
            return None;
        };
        files.close_probes(sink);
        let mean = round_trips.mean_ns();
        if mean.is_none() {
            let why = last_error.map(|why| format!(" ({})", why.message)).unwrap_or_default();
            tracing::warn!(
                "no TCP connect of --network-latency-automatic succeeded{why}; there are no results \
                 without the network. Set the round-trip time with --network-latency-mean"
            );
        }
        mean
    }
}
