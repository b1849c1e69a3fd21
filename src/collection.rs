//! What a run collects beside its requests: metrics of the servers, telemetry of GPUs, the round-trip
//! time of the network, the energy of the client, and what its machine does to it.

mod client_energy;
mod gpus;
mod host;
mod round_trip;
mod servers;

pub(crate) use self::client_energy::ClientEnergy;
pub(crate) use self::gpus::GpuCollection;
pub(crate) use self::host::HostWatch;
pub(crate) use self::round_trip::RoundTrip;
pub(crate) use self::servers::ServerCollection;
