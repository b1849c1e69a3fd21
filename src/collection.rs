//! What a run collects beside its requests: metrics of the servers, telemetry of GPUs, the round-trip
//! time of the network, and the energy of the client.

mod client_energy;
mod gpus;
mod round_trip;
mod servers;

pub(crate) use self::client_energy::ClientEnergy;
pub(crate) use self::gpus::GpuCollection;
pub(crate) use self::round_trip::RoundTrip;
pub(crate) use self::servers::ServerCollection;
