//! References to environment variables in scalars: "Environment variable substitution" of the data
//! model of OpenTelemetry's configuration.

use base::environment::Environment;
use base::input::yaml::Room;

/// Returns `text` with the values of the variables that it refers to as `${NAME}`, `${env:NAME}` or
/// `${NAME:-default}`, and whether it refers to any; `$$` is a dollar sign. A variable that is unset is
/// empty, unless there is a default.
///
/// # Errors
///
/// Returns the reason if a reference is not valid, or if there is no `room` for a value. Values are not repeated in it.
pub(super) fn substitute(
    text: &str,
    given: Environment<'_>,
    room: &mut Room,
) -> Result<(String, bool), String> {
    let (mut out, mut rest, mut refers) = (String::with_capacity(text.len()), text, false);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(more) = after.strip_prefix('$') {
            out.push('$');
            rest = more;
        } else if let Some((inner, more)) =
            after.strip_prefix('{').and_then(|it| it.split_once('}'))
        {
            let value = value(inner, given)?;
            room.take(&value)?;
            out.push_str(&value);
            refers = true;
            rest = more;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok((out, refers))
}

/// Returns the value of the reference between the braces.
fn value(inner: &str, given: Environment<'_>) -> Result<String, String> {
    let named = inner.strip_prefix("env:").unwrap_or(inner);
    let (name, default) = named.split_once(":-").unwrap_or((named, ""));
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_name = name.bytes().next().is_some_and(is_start)
        && name.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit());
    if !is_name || default.contains('\n') {
        return Err("has a reference that is not valid; write ${NAME}, ${env:NAME} or \
                    ${NAME:-default}"
            .to_owned());
    }
    Ok(given.get(name).unwrap_or_else(|| default.to_owned()))
}
