//! Which server a request goes to, and by which path.

use std::sync::Arc;

use crate::transport::Target;

/// The servers of a run. Some dialects have the model's name in the path: then
/// each server is there once for each model, too.
#[derive(Debug, Clone)]
pub struct Targets {
    servers: Arc<[Target]>,
    models: Arc<[(Arc<str>, Vec<Target>)]>,
}

impl Targets {
    /// Servers whose path is the same for all requests.
    #[must_use]
    pub fn new(servers: impl Into<Arc<[Target]>>) -> Self {
        Self { servers: servers.into(), models: Arc::from([]) }
    }

    /// With the servers' paths of each model, in the servers' order.
    #[must_use]
    pub fn with_models(self, models: impl Into<Arc<[(Arc<str>, Vec<Target>)]>>) -> Self {
        Self { models: models.into(), ..self }
    }

    /// The servers.
    pub(super) const fn servers(&self) -> &Arc<[Target]> {
        &self.servers
    }

    /// The server that session `number` talks to: sessions take them in turn.
    pub(super) fn server(&self, number: u64) -> usize {
        (number % self.servers.len().max(1) as u64) as usize
    }

    /// Where a request to `model` on `server` goes, and its path if that is not
    /// the server's own.
    pub(super) fn of(&self, server: usize, model: &str) -> (Option<&Target>, Option<Arc<str>>) {
        let named = self.models.iter().find(|(name, _)| **name == *model);
        match named.and_then(|(_, targets)| targets.get(server)) {
            Some(target) => (Some(target), Some(Arc::clone(&target.path_and_query))),
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
        let of = |server, model| {
            let (target, path) = targets.of(server, model);
            (target.map(|target| target.url.to_string()), path.map(|path| path.to_string()))
        };
        assert_eq!(of(1, "m"), (Some("http://b/m".into()), Some("/m".into())));
        assert_eq!(of(1, "other"), (Some("http://b/x".into()), None));
        assert_eq!(of(2, "m"), (None, None));
    }
}
