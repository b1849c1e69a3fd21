//! The cores of client and server.

use serde::Serialize;

use base::platform::cores;

/// Core numbers; empty if unknown or if there is only one core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cores {
    /// The mock server's cores.
    pub server: Vec<usize>,
    /// The client's cores: all others.
    pub client: Vec<usize>,
}

impl Cores {
    /// Assigns the first core available to this thread to the server, the rest to the client.
    pub fn split() -> Self {
        let mut all = cores::allowed();
        if all.len() < 2 {
            return Self::default();
        }
        let client = all.split_off(1);
        Self { server: all, client }
    }
}
