//! The input of a run: dataset, endpoint, servers and headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use dataset::{CacheBust, Dataset, Sampler, Seed};

use super::ahead::Ahead;
use super::canaries::Canaries;
use super::request::RequestBuilder;
use super::session::{Found, Marks};
use super::targets::Targets;
use crate::endpoint::{ContextOverflow, Endpoint};
use crate::schedule::Shard;

/// Maximum number of bytes of request bodies that are built before the run. The prompts of a long
/// trace take several gigabytes. Building a body of 20,000 tokens when it is sent takes about 35
/// µs.
const BODIES_BUDGET: usize = 256 << 20;

/// The input of a run: dataset, endpoint, servers and headers.
#[derive(Debug, Clone)]
pub struct Workload {
    pub(super) dataset: Arc<Dataset>,
    /// What draws conversations, for each part of the dataset.
    pub(super) samplers: Arc<[Sampler]>,
    pub(super) endpoint: Arc<dyn Endpoint>,
    pub(super) targets: Targets,
    pub(super) builder: Arc<RequestBuilder>,
    /// Bodies of first turns: of all conversations, or of as many as [`BODIES_BUDGET`] holds.
    pub(super) first_bodies: Arc<[Bytes]>,
    /// What has the conversations that are made while the run goes on.
    pub(super) ahead: Option<Arc<Ahead>>,
    pub(super) cache_bust: CacheBust,
    /// By what an error says that a prompt is too long.
    pub(super) context_overflow: ContextOverflow,
    /// What the requests of each tenant have of their own.
    pub(super) tenants: Arc<[TenantRequests]>,
    /// Which sessions send a canary, if any do.
    canaries: Option<Canaries>,
}

impl Workload {
    /// Creates a workload that draws conversations of each part of `dataset` with one of `samplers` and sends them to
    /// `endpoint` on `targets`, with the headers of `builder`. Sessions take the targets in turn.
    /// Bodies that never change are built here, up to a memory limit; the others are built when
    /// they are sent.
    #[must_use]
    pub fn new(
        dataset: Arc<Dataset>,
        samplers: Vec<Sampler>,
        endpoint: Arc<dyn Endpoint>,
        targets: Targets,
        builder: Arc<RequestBuilder>,
    ) -> Self {
        let first_bodies = dataset
            .conversations
            .iter()
            .map(|conversation| Bytes::from(endpoint.request_body(conversation, 0, &[])))
            .scan(0, |bytes, body: Bytes| {
                *bytes += body.len();
                (*bytes <= BODIES_BUDGET).then_some(body)
            })
            .collect();
        Self {
            dataset,
            samplers: samplers.into(),
            endpoint,
            targets,
            builder,
            first_bodies,
            ahead: None,
            cache_bust: CacheBust::None,
            context_overflow: ContextOverflow::default(),
            tenants: Arc::default(),
            canaries: None,
        }
    }

    /// Adds markers to prompts.
    #[must_use]
    pub fn with_cache_bust(self, cache_bust: CacheBust) -> Self {
        Self { cache_bust, ..self }
    }

    /// Has lanes end conversations whose prompts are too long, which these errors say.
    #[must_use]
    pub fn with_context_overflow(self, context_overflow: ContextOverflow) -> Self {
        Self { context_overflow, ..self }
    }

    /// Lets tenants share the load.
    #[must_use]
    pub fn with_tenants(self, tenants: Vec<TenantRequests>) -> Self {
        Self { tenants: tenants.into(), ..self }
    }

    /// Has a share of the sessions of measured phases, if there is one, send the canaries of the
    /// dataset.
    #[must_use]
    pub fn with_canaries(self, share: Option<f64>, seed: Seed) -> Self {
        let of = self.dataset.canaries();
        Self { canaries: share.map(|share| Canaries::new(share, seed, of)), ..self }
    }

    /// Returns the conversation of the canary that the session `number` sends in a measured phase, if it
    /// sends one.
    pub(super) fn canary(&self, number: u64) -> Option<usize> {
        self.canaries.as_ref()?.conversation(number)
    }

    /// Returns what the requests of a tenant have of their own.
    pub(super) fn tenant(&self, tenant: Option<usize>) -> Option<&TenantRequests> {
        self.tenants.get(tenant?)
    }

    /// Returns the body of the first turn of the first conversation.
    #[must_use]
    pub fn first_body(&self) -> Bytes {
        self.body(Found::At(0), 0, &[], Marks::default())
    }

    /// Returns the bodies of first turns that were built before the run, by conversation.
    #[must_use]
    pub const fn first_bodies(&self) -> &Arc<[Bytes]> {
        &self.first_bodies
    }
}

/// What the requests of a tenant have of their own.
#[derive(Debug)]
pub struct TenantRequests {
    pub name: Arc<str>,
    /// Its headers, with those of all requests.
    pub builder: RequestBuilder,
    /// Its conversations of each part of the dataset; empty if it shares those of the others.
    pub conversations: Vec<OwnConversations>,
}

/// The conversations of one tenant in a part of the dataset.
#[derive(Debug)]
pub struct OwnConversations {
    sampler: Sampler,
    /// Number of sessions that have drawn one.
    drawn: AtomicU64,
}

impl OwnConversations {
    /// Creates the conversations of which `sampler` draws.
    pub const fn new(sampler: Sampler) -> Self {
        Self { sampler, drawn: AtomicU64::new(0) }
    }

    /// Draws the conversation of the next session of a process.
    pub(super) fn draw(&self, shard: Shard) -> usize {
        self.sampler.conversation(shard.nth(self.drawn.fetch_add(1, Relaxed)))
    }
}
