//! Generated datasets of which each tenant has a part with lengths of its own.

use std::ops::Range;

use serde::Serialize;

use super::{Config, Conversation, Dataset, DatasetError, Length, Seed, Source, conversation_id};
use crate::hub::Hub;
use crate::tokenizer::TokenCounter;

/// The part of a generated dataset that belongs to a tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantLengths {
    /// Name of the tenant.
    pub name: String,
    /// Its part of the conversations, in (0, 1].
    pub load: f64,
    /// Its input lengths; `None` is those of the dataset.
    pub input_tokens: Option<Length>,
    /// Its requested output lengths; `None` is those of the dataset.
    pub output_tokens: Option<Length>,
}

impl Config {
    /// Returns the ranges of the conversations of each tenant, if they have conversations of their
    /// own: at least one each.
    #[must_use]
    pub(crate) fn ranges_of_tenants(&self) -> Vec<Range<usize>> {
        let Source::Synthetic(synthetic) = &self.source else { return Vec::new() };
        let mut end = 0;
        let part = |tenant: &TenantLengths| {
            let first = end;
            end += ((synthetic.entries as f64 * tenant.load).round() as usize).max(1);
            first..end
        };
        self.tenants.iter().map(part).collect()
    }

    /// Returns the settings of the part of `tenant`, with `entries` conversations.
    fn of_tenant(&self, tenant: &TenantLengths, entries: usize, seed: Seed) -> Self {
        let mut own = self.clone();
        own.tenants = Vec::new();
        own.random_seed = Some(seed.derive(&format!("dataset.tenant.{}", tenant.name)).0);
        if let Source::Synthetic(synthetic) = &mut own.source {
            synthetic.entries = entries;
            if let Some(input_tokens) = &tenant.input_tokens {
                synthetic.input_tokens = input_tokens.clone();
            }
        }
        if tenant.output_tokens.is_some() {
            own.output_tokens.clone_from(&tenant.output_tokens);
        }
        own
    }
}

impl Dataset {
    /// Generates the conversations of each tenant, one tenant after the other.
    pub(super) fn of_tenants(
        config: &Config,
        counter: &TokenCounter,
        tokenizes_input: bool,
        hub: &Hub,
        seed: Seed,
    ) -> Result<Self, DatasetError> {
        let mut all: Vec<Conversation> = Vec::new();
        for (tenant, range) in config.tenants.iter().zip(config.ranges_of_tenants()) {
            let own = config.of_tenant(tenant, range.len(), seed);
            let part = Self::load(&own, counter, tokenizes_input, hub)?;
            all.extend(part.conversations.iter().cloned());
        }
        for (index, conversation) in all.iter_mut().enumerate() {
            conversation.id = conversation_id(index).into();
        }
        Ok(Self { conversations: all.into() })
    }
}
