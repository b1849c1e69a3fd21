//! Generated datasets of which each tenant has a part with lengths of its own.

use std::ops::Range;

use serde::Serialize;

use super::growth::{Maker, Seeds};
use super::parts::Loading;
use super::{Conversation, Conversations, DatasetError, Length, Part, Source};

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

impl Part {
    /// Returns the places of the conversations of each tenant in the part, if tenants have conversations
    /// of their own: at least one each.
    #[must_use]
    pub(crate) fn ranges_of_tenants(&self) -> Vec<Range<usize>> {
        let Source::Synthetic(synthetic) = &self.source else { return Vec::new() };
        let mut end = 0;
        let own = |tenant: &TenantLengths| {
            let first = end;
            end += ((synthetic.entries as f64 * tenant.load).round() as usize).max(1);
            first..end
        };
        self.tenants.iter().map(own).collect()
    }

    /// Returns the part of `tenant`, with `entries` conversations.
    fn of_tenant(&self, tenant: &TenantLengths, entries: usize) -> Self {
        let mut own = Self { tenants: Vec::new(), ..self.clone() };
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

impl Loading<'_> {
    /// Generates the conversations of each tenant, one tenant after the other.
    pub(super) fn of_tenants(
        &self,
        part: &Part,
        seeds: Seeds,
        number: &mut usize,
    ) -> Result<(Conversations, Vec<Maker>), DatasetError> {
        let mut all: Vec<Conversation> = Vec::new();
        let mut makers = Vec::new();
        for (tenant, range) in part.tenants.iter().zip(part.ranges_of_tenants()) {
            let own = part.of_tenant(tenant, range.len());
            let seeds = seeds.derive(&format!("dataset.tenant.{}", tenant.name));
            let (conversations, maker) = self.part(&own, seeds, number)?;
            all.extend(conversations.into_vec());
            makers.extend(maker);
        }
        Ok((all.into(), makers))
    }
}
