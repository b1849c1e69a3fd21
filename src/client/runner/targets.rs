//! The server and path of a request.

use std::sync::Arc;

use base::redact::Secret;

use crate::transport::Target;

/// The servers of a run. If the path contains the name of the model, there is also one target per
/// server and model.
#[derive(Debug, Clone)]
pub struct Targets {
    servers: Arc<[Target]>,
    models: Arc<[(Arc<str>, Vec<Target>)]>,
}

impl Targets {
    /// Creates targets whose path is the same for all requests.
    #[must_use]
    pub fn new(servers: impl Into<Arc<[Target]>>) -> Self {
        Self { servers: servers.into(), models: Arc::from([]) }
    }

    /// Adds the targets of each model, in the order of the servers.
    #[must_use]
    pub fn with_models(self, models: impl Into<Arc<[(Arc<str>, Vec<Target>)]>>) -> Self {
        Self { models: models.into(), ..self }
    }

    pub(super) const fn servers(&self) -> &Arc<[Target]> {
        &self.servers
    }

    /// Returns the server of session `number`; sessions take the servers in turn.
    pub(super) fn server(&self, number: u64) -> usize {
        (number % self.servers.len().max(1) as u64) as usize
    }

    /// Returns the target of a request to `model` on `server`, and its path if it differs from the
    /// path of the server.
    pub(super) fn for_model(
        &self,
        server: usize,
        model: &str,
    ) -> (Option<&Target>, Option<Secret<Arc<str>>>) {
        let named = self.models.iter().find(|(name, _)| **name == *model);
        match named.and_then(|(_, targets)| targets.get(server)) {
            Some(target) => (Some(target), Some(target.path_and_query.clone())),
            None => (self.servers.get(server), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn target(url: &str) -> Target {
        Target::new(&Url::parse(url).unwrap()).unwrap()
    }

    #[test]
    fn a_model_may_have_paths_of_its_own() {
        let targets = Targets::new([target("http://a/x"), target("http://b/x")])
            .with_models([("m".into(), vec![target("http://a/m"), target("http://b/m")])]);
        assert_eq!([0, 1, 2, 3].map(|session| targets.server(session)), [0, 1, 0, 1]);
        let path_of = |server, model| {
            let (target, path) = targets.for_model(server, model);
            (
                target.map(|target| target.url.to_string()),
                path.map(|path| path.expose().to_string()),
            )
        };
        assert_eq!(path_of(1, "m"), (Some("http://b/m".into()), Some("/m".into())));
        assert_eq!(path_of(1, "other"), (Some("http://b/x".into()), None));
        assert_eq!(path_of(2, "m"), (None, None));
    }
}
