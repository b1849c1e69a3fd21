//! Asks the idle servers for the answers to canaries.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder as Request};
use tokio::task::JoinSet;
use uuid::Uuid;

use base::interrupt::Interrupt;
use base::units::{Clock, Nanos};
use client::endpoint::Endpoint;
use client::record::{Arrival, ResponseBody, SseEvent};
use client::runner::RequestBuilder;
use client::transport::SseDecoder;

use super::request::{block_on, client, with_headers};
use crate::config::{Connections, ServerConfig, url as urls};

/// How many times each canary is asked: once alone, and then together with others.
pub(crate) const ROUNDS: usize = 3;

/// Maximum number of canaries that are asked at the same time.
const AT_ONCE: usize = 8;

/// Maximum time for all requests.
const TIME: Duration = Duration::from_mins(10);

/// The requests that ask the idle servers for the answers to canaries.
pub(crate) struct CanaryQuestions<'a> {
    pub(crate) server: &'a ServerConfig,
    pub(crate) connections: &'a Connections,
    /// Path of the endpoint relative to the base URL.
    pub(crate) path: &'a str,
    pub(crate) endpoint: &'a dyn Endpoint,
    pub(crate) builder: &'a RequestBuilder,
    /// The timeout of a request.
    pub(crate) timeout: Nanos,
    /// The number of each canary, from 1, and the body of its request.
    pub(crate) canaries: Vec<(usize, Bytes)>,
}

impl CanaryQuestions<'_> {
    /// Returns the answers to each canary: first each alone, one after the other, then all together, twice.
    /// Several servers are asked in turn. `None` if the user interrupts it.
    ///
    /// # Errors
    /// If a canary is not answered at all, or it takes too long.
    pub(crate) fn ask(&self, interrupt: &Interrupt) -> anyhow::Result<Option<Vec<Vec<Arc<str>>>>> {
        block_on(self.in_time(), interrupt)?.transpose()
    }

    async fn in_time(&self) -> anyhow::Result<Vec<Vec<Arc<str>>>> {
        tokio::time::timeout(TIME, self.rounds()).await.unwrap_or_else(|_| {
            bail!(
                "the idle server did not answer the canaries within {} s; use fewer or shorter ones \
                 with --canary-file, or remove --canaries",
                TIME.as_secs()
            )
        })
    }

    async fn rounds(&self) -> anyhow::Result<Vec<Vec<Arc<str>>>> {
        let timeout = TIME.min(self.timeout.into());
        let client = client(self.connections, &self.server.urls, timeout)?;
        let mut answers = vec![Vec::new(); self.canaries.len()];
        let mut failures = vec![None; self.canaries.len()];
        for round in 0..ROUNDS {
            let at_once = if round == 0 { 1 } else { AT_ONCE };
            let mut asked = JoinSet::new();
            let mut next = 0;
            loop {
                while next < self.canaries.len() && asked.len() < at_once {
                    let (at, request) = (next, self.request(&client, next, round));
                    asked.spawn(async move { (at, whole(request).await) });
                    next += 1;
                }
                let Some(returned) = asked.join_next().await else { break };
                let (at, body) = returned?;
                match body.and_then(|body| self.text(&body)) {
                    Ok(text) => answers[at].push(text),
                    Err(why) => failures[at] = Some(why),
                }
            }
        }
        for ((number, _), (answers, failure)) in
            self.canaries.iter().zip(answers.iter().zip(failures))
        {
            if let Some(why) = failure.filter(|_| answers.is_empty()) {
                bail!(
                    "the server did not answer canary {number} before the load: {why}; check that it \
                     answers requests like those of the run, or remove --canaries"
                );
            }
        }
        Ok(answers)
    }

    /// Returns the request for the canary with this index.
    fn request(&self, client: &Client, at: usize, round: usize) -> Request {
        let urls = &self.server.urls;
        let url = urls::join(&urls[(at + round) % urls.len()], self.path);
        let headers = self.builder.headers(Uuid::new_v4(), Uuid::new_v4());
        client.post(url.expose().clone()).headers(headers).body(self.canaries[at].1.clone())
    }

    /// Returns the text of a response.
    fn text(&self, body: &ResponseBody) -> Result<Arc<str>, String> {
        let response = self.endpoint.parse(body);
        match response.error {
            Some(error) => Err(error.in_words().trim().to_owned()),
            None => Ok(response.output_text.into()),
        }
    }
}

/// Returns the body of a response, with its events if it is a stream.
async fn whole(request: Request) -> Result<ResponseBody, String> {
    let (headers, bytes) = with_headers(request).await.map_err(|refusal| refusal.why)?;
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    let is_event_stream =
        kind.is_some_and(|kind| kind.trim_ascii().starts_with(b"text/event-stream"));
    Ok(body(bytes, is_event_stream, Clock::now().into()))
}

/// Returns the body of a response that arrived as a whole.
fn body(bytes: Vec<u8>, is_event_stream: bool, arrival: Arrival) -> ResponseBody {
    let mut events = Vec::new();
    if is_event_stream {
        let mut decoder = SseDecoder::default();
        decoder.scan(&bytes, 0, arrival, &mut events);
        decoder.finish(&bytes, arrival, &mut events);
    } else {
        let end = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        events.push(SseEvent { arrival, start: 0, end });
    }
    ResponseBody { bytes, is_event_stream, events }
}

#[cfg(test)]
mod tests {
    use client::endpoint::{self, EndpointType};

    use super::*;

    #[test]
    fn streams_and_whole_bodies_are_read() {
        let text = |body: &ResponseBody| {
            let config = endpoint::Config::new(EndpointType::CHAT, true);
            endpoint::build(&config).parse(body).output_text
        };
        let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n\
                      data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" b\"},\
                      \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let stream = body(stream.into(), true, Nanos(1).into());
        assert_eq!((stream.events.len(), text(&stream)), (3, "a b".to_owned()));
        let whole = r#"{"choices":[{"index":0,"message":{"content":"c"},"finish_reason":"stop"}]}"#;
        assert_eq!(text(&body(whole.into(), false, Nanos(1).into())), "c");
    }
}
