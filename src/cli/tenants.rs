//! The tenants that share the load.

use dataset::TenantLengths;

use super::profile::ProfileArgs;
use crate::config::{ConfigError, Tenant, Tenants};

/// The tenants of the file that `--tenants` names, with the load of all together.
pub(super) fn config(flags: &ProfileArgs) -> Result<Tenants, ConfigError> {
    const FLAG: &str = "--tenants";
    let Some(path) = &flags.load.tenants else { return Ok(Tenants::default()) };
    let tenants = Tenants::read(path).map_err(|why| ConfigError::File {
        flag: FLAG,
        path: path.display().to_string(),
        why,
    })?;
    let refuse = |why| Err(ConfigError::flag(FLAG, why));
    let has_rate = flags.request_rate().is_some() || flags.load.request_rate_series.is_some();
    if (tenants.rate.is_some() || tenants.concurrency.is_some()) && has_rate {
        return refuse("the file has the load of each tenant; remove --request-rate");
    }
    if tenants.concurrency.is_some() && flags.load.concurrency.is_some() {
        return refuse("the file has the concurrency of each tenant; remove --concurrency");
    }
    Ok(tenants)
}

/// The parts of a generated dataset that belong to tenants, if any of them has lengths of its own.
pub(super) fn lengths(tenants: &[Tenant]) -> Vec<TenantLengths> {
    let has_own = |it: &Tenant| it.input_tokens.is_some() || it.output_tokens.is_some();
    if !tenants.iter().any(has_own) {
        return Vec::new();
    }
    let lengths_of = |tenant: &Tenant| TenantLengths {
        name: tenant.traffic.name.clone(),
        load: tenant.traffic.load,
        input_tokens: tenant.input_tokens.clone(),
        output_tokens: tenant.output_tokens.clone(),
    };
    tenants.iter().map(lengths_of).collect()
}
