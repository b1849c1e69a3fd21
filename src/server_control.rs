//! Requests to the servers of a run beside its load: to wait until they serve the model, to ask
//! for the answers to canaries, to reset their prefix caches, to profile them, and to ask what they offer if no model is named or if they
//! reject all requests;
//! and servers that a command starts itself.

mod canaries;
mod launch;
mod models;
mod profiler;
mod readiness;
mod rejection;
mod request;
mod servers;

pub(crate) use self::canaries::{CanaryQuestions, ROUNDS};
pub(crate) use self::launch::Launched;
pub(crate) use self::models::only_model;
pub(crate) use self::profiler::Profiler;
pub(crate) use self::readiness::Probe;
pub(crate) use self::rejection::Rejection;
pub(crate) use self::servers::Servers;
