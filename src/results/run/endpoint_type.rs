//! An endpoint's traits in files: the name given to `--endpoint-type`.

use serde::{Deserialize, Deserializer, Serializer, de};

use base::setting::Named;
use client::endpoint::{EndpointTraits, EndpointType};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(super) fn serialize<S: Serializer>(
    traits: &&'static EndpointTraits,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(traits.name)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<&'static EndpointTraits, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = EndpointType::named(&name)
        .ok_or_else(|| de::Error::custom(format!("the endpoint type {name:?} is unknown")))?;
    Ok(found.traits())
}
