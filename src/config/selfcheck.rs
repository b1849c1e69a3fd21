//! Where the limits that `aiperf selfcheck` found are kept.

use std::path::PathBuf;

use super::Environment;

/// The file that `AIPERF_SELFCHECK_FILE` names, else `aiperf/selfcheck.json` in
/// the user's directory of configuration; `None` where there is no such directory.
#[must_use]
pub fn file(environment: Environment<'_>) -> Option<PathBuf> {
    if let Some(path) = environment.get("AIPERF_SELFCHECK_FILE") {
        return Some(path.into());
    }
    let home = || Some(PathBuf::from(environment.get("HOME")?).join(".config"));
    let directory = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(directory.join("aiperf").join("selfcheck.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_variable_wins() {
        let among = |set: &'static [(&str, &str)]| {
            let look = move |name: &str| {
                set.iter().find(|(have, _)| *have == name).map(|(_, value)| (*value).to_owned())
            };
            file(Environment::new(&look)).map(|path| path.display().to_string())
        };
        assert_eq!(among(&[]), None);
        assert_eq!(among(&[("HOME", "/h")]).unwrap(), "/h/.config/aiperf/selfcheck.json");
        assert_eq!(
            among(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]).unwrap(),
            "/x/aiperf/selfcheck.json"
        );
        assert_eq!(among(&[("HOME", "/h"), ("AIPERF_SELFCHECK_FILE", "f")]).unwrap(), "f");
    }
}
