//! Name resolution for clients whose requests are not measured.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::{io, thread};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::oneshot;

/// Looks up each name on a thread of its own. The client's own resolver panics if the system does not
/// start a thread; here, it is an error of the request.
#[derive(Debug, Clone, Copy)]
pub struct Lookup;

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses = look_up(thread::Builder::new(), name.as_str().to_owned()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Returns the addresses of the host `name`, with the port 0, by way of a thread of `builder`.
async fn look_up(builder: thread::Builder, name: String) -> io::Result<Vec<SocketAddr>> {
    let (sender, answer) = oneshot::channel();
    // The receiver is gone after a timeout.
    let work = move || drop(sender.send((name.as_str(), 0).to_socket_addrs().map(Vec::from_iter)));
    builder.name("dns".to_owned()).spawn(work)?;
    answer.await.unwrap_or_else(|_| Err(io::Error::other("the lookup ended unexpectedly")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_looked_up_on_a_thread_or_the_error_says_that_there_is_none() {
        let found = look_up(thread::Builder::new(), "localhost".to_owned()).await.unwrap();
        assert!(!found.is_empty() && found.iter().all(|at| at.ip().is_loopback()), "{found:?}");
        // More memory than a process can have.
        let builder = thread::Builder::new().stack_size(1 << 50);
        look_up(builder, "localhost".to_owned()).await.unwrap_err();
    }
}
