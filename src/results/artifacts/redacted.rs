//! Secrets in request bodies, which the files do not have.

use base::redact;

/// Returns the `--extra-inputs` that are partly redacted; bodies have the same members.
pub(super) fn redacted_extras(
    extra_inputs: &serde_json::Map<String, serde_json::Value>,
) -> Vec<(String, serde_json::Value)> {
    let is_redacted = |value: &serde_json::Value| value.to_string().contains(redact::MARK);
    let all = extra_inputs.iter().filter(|(_, value)| is_redacted(value));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Replaces members of `body` by those of `redacted`, and removes its credentials and those of its
/// URLs. Returns whether anything changed.
pub(super) fn redact_body(
    body: &mut serde_json::Value,
    redacted: &[(String, serde_json::Value)],
) -> bool {
    let mut is_another = redact::urls(body) | redact::credentials(body);
    for (name, shown) in redacted {
        if let Some(member) = body.get_mut(name) {
            *member = shown.clone();
            is_another = true;
        }
    }
    is_another
}
