//! Headers whose values must not reach a file.

/// What stands for a secret.
pub(super) const REDACTED: &str = "<redacted>";

const SECRET_NAMES: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"];
const SECRET_PARTS: [&str; 3] = ["token", "secret", "key"];

/// The value of header `name` as files may have it.
pub(super) fn header_value<'a>(name: &str, value: &'a str) -> &'a str {
    let name = name.to_ascii_lowercase();
    let is_secret = SECRET_NAMES.contains(&name.as_str())
        || SECRET_PARTS.iter().any(|part| name.contains(part));
    if is_secret { REDACTED } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_in_any_case() {
        for name in
            ["Authorization", "X-API-Key", "cookie", "Set-Cookie", "X-Auth-Token", "mySecret"]
        {
            assert_eq!(header_value(name, "hunter2"), REDACTED, "{name}");
        }
        assert_eq!(header_value("Content-Type", "application/json"), "application/json");
    }
}
