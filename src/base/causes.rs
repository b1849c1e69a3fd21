//! The causes of an error, to print and to search.

use std::error::Error;

use anyhow::Chain;

/// Returns the messages of `error` and of its causes, outermost first, since the outermost alone is
/// often not informative.
#[must_use]
pub fn described(error: &(dyn Error + 'static)) -> String {
    Chain::new(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the innermost cause of `error`, or `error` itself.
#[must_use]
pub fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    Chain::new(error).last().unwrap_or(error)
}

/// Returns the outermost error of type `E` among `error` and its causes.
#[must_use]
pub fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    Chain::new(error).find_map(|cause| cause.downcast_ref())
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("cannot load")]
    struct Outer(#[source] Middle);

    #[derive(Debug, Error)]
    #[error("cannot read")]
    struct Middle(#[source] io::Error);

    fn failed() -> Outer {
        Outer(Middle(io::ErrorKind::NotFound.into()))
    }

    #[test]
    fn every_cause_is_printed() {
        assert_eq!(described(&failed()), "cannot load: cannot read: entity not found");
        assert_eq!(described(&fmt::Error), fmt::Error.to_string());
        assert_eq!(root(&failed()).to_string(), "entity not found");
        assert_eq!(root(&fmt::Error).to_string(), fmt::Error.to_string());
    }

    #[test]
    fn a_cause_is_found_by_its_type() {
        let error = failed();
        let found: Option<&io::Error> = find(&error);
        assert_eq!(found.map(io::Error::kind), Some(io::ErrorKind::NotFound));
        assert!(find::<Outer>(&error).is_some() && find::<fmt::Error>(&error).is_none());
    }
}
