//! LMDeploy.

use super::declaration::ServerFamily;

/// The declaration of the family.
pub(super) static FAMILY: ServerFamily = ServerFamily::engine("lmdeploy", "LMDeploy", "lmdeploy:");
