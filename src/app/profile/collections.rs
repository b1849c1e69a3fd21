//! What is measured beside the requests: servers, GPUs, the network, and the client's own machine.

use std::sync::Arc;

use base::interrupt::Interrupt;
use base::platform::machine::Ends;
use client::runner::{PhaseListener, Runner};
use measure::gpu::report::GpuReport;
use measure::metrics::ClientHealth;
use measure::server_metrics::conservation::ClientCounts;
use measure::server_metrics::limits::ClientLimits;
use measure::server_metrics::report::ServerMetrics;
use results::artifacts::ArtifactSet;
use results::follow::Followers;
use telemetry::Telemetry;

use super::Run;
use crate::collection::{ClientEnergy, GpuCollection, HostWatch, RoundTrip, ServerCollection};

/// The collections of a run.
pub(super) struct Collections {
    servers: Option<ServerCollection>,
    gpus: Option<GpuCollection>,
    round_trip: Option<RoundTrip>,
    energy: Option<Arc<ClientEnergy>>,
    host: Option<HostWatch>,
}

/// What the collections of a run have found.
pub(super) struct Findings {
    pub(super) servers: Option<ServerMetrics>,
    pub(super) gpus: Option<GpuReport>,
    /// Round-trip time of the network in nanoseconds.
    pub(super) round_trip_ns: Option<f64>,
    /// Energy of the client's processors in the profiling phase, in joules.
    client_joules: Option<f64>,
    /// What the client's machine did, still without the servers' addresses.
    host: Option<HostWatch>,
}

impl Findings {
    /// Adds what was found about the client, and all doubts, to its `health`. `ends` are those of
    /// connections to the servers.
    pub(super) fn add_to(&mut self, health: &mut ClientHealth, ends: &[Ends]) {
        health.energy_joules = self.client_joules;
        if let Some((host, reasons)) = self.host.take().and_then(|host| host.finish(ends)) {
            health.host = Some(host);
            health.doubt(reasons);
        }
        health.doubt(self.gpus.iter().flat_map(|gpus| &gpus.doubts).cloned());
    }
}

impl Collections {
    /// Starts those collections that the settings of `run` ask for.
    pub(super) fn start(
        run: &Run,
        telemetry: &Arc<Telemetry>,
        interrupt: &Interrupt,
        files: &mut ArtifactSet,
        followers: &Followers,
    ) -> anyhow::Result<Self> {
        let (config, clock) = (&run.config, run.clock);
        Ok(Self {
            servers: ServerCollection::start(
                config, clock, telemetry, interrupt, files, followers,
            )?,
            gpus: GpuCollection::start(config, clock, telemetry, interrupt, files, followers)?,
            round_trip: RoundTrip::start(config, clock, interrupt, files)?,
            energy: ClientEnergy::start(),
            host: HostWatch::start(),
        })
    }

    /// Has `runner` notify the collections of the phases.
    pub(super) fn listen_to(&self, runner: Runner) -> Runner {
        let energy = self.energy.clone().map(|energy| -> Arc<dyn PhaseListener> { energy });
        runner
            .with_listener(self.servers.as_ref().map(ServerCollection::listener))
            .with_listener(self.gpus.as_ref().map(GpuCollection::listener))
            .with_listener(energy)
            .with_listener(self.host.as_ref().map(HostWatch::listener))
    }

    /// Notes the end of the load: the records that are processed from now on load the client.
    pub(super) fn load_ended(&self) {
        if let Some(round_trip) = &self.round_trip {
            round_trip.load_ended();
        }
    }

    /// Ends the collections, and returns what they have found. `client` and `limits` are absent if the
    /// client's own counts are incomplete.
    pub(super) fn finish(
        self,
        client: Option<ClientCounts>,
        limits: Option<ClientLimits>,
        interrupt: &Interrupt,
        files: &mut ArtifactSet,
    ) -> Findings {
        Findings {
            servers: self
                .servers
                .and_then(|servers| servers.finish(client, limits, interrupt, files)),
            gpus: self.gpus.and_then(|gpus| gpus.finish(interrupt, files)),
            round_trip_ns: self.round_trip.and_then(|found| found.finish(interrupt, files)),
            client_joules: self.energy.and_then(|energy| energy.joules()),
            host: self.host,
        }
    }
}
