//! What waits for the collector: encoded items of a signal, which are sent in batches.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_proto::transform::common::tonic::Attributes;
use prost::Message;
use prost::encoding::message;

use base::interrupt::Interrupt;
use base::lock::Lock;
use base::semconv::Conventions;
use base::units::Nanos;
use otlp::append;

use super::connection::Connection;
use super::protobuf::{self, FRAME, MAX_REQUEST_BYTES};
use super::queue::{Bounds, Parcel, Queue};
use super::send::{Answer, Courier, SendTask};

/// The list of a request, `resource_spans` or `resource_logs`.
const RESOURCES: u32 = 1;
/// The list of a resource, `scope_spans` or `scope_logs`.
const SCOPES: u32 = 2;
/// The list of a scope, `spans` or `log_records`.
const ITEMS: u32 = 2;

/// Spans or log records that are sent together, encoded as a field of their scope.
pub(super) struct Item {
    encoded: Vec<u8>,
    count: u64,
}

impl Item {
    /// Encodes `messages`, which count as `count` items.
    pub(super) fn new<M: Message>(messages: &[M], count: u64) -> Self {
        // Exact, since the size of what waits is limited by this length.
        let length = messages.iter().map(|of| message::encoded_len(ITEMS, of)).sum();
        let mut encoded = Vec::with_capacity(length);
        for of in messages {
            message::encode(ITEMS, of, &mut encoded);
        }
        Self { encoded, count }
    }
}

impl Item {
    /// Takes fields of a request that are already encoded, for an outbox without a head.
    pub(super) const fn of_request(encoded: Vec<u8>, count: u64) -> Self {
        Self { encoded, count }
    }
}

impl Parcel for Item {
    fn bytes(&self) -> usize {
        self.encoded.len()
    }

    fn items(&self) -> u64 {
        self.count
    }
}

/// What became of the items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Items that were given: the sum of `sent` and `lost` at the end.
    pub(super) given: u64,
    /// Items in requests that the collector accepted.
    pub(super) sent: u64,
    /// What it reported as rejected, as the signal counts it.
    pub(super) rejected: u64,
    /// Items that did not reach it.
    pub(super) lost: u64,
    /// Whether it does not take the signal, which is optional.
    pub(super) is_unsupported: bool,
}

/// A bounded queue of items, and the task that sends them.
pub(super) struct Outbox {
    queue: Arc<Queue<Item>>,
    tally: Arc<Lock<Tally>>,
    task: SendTask,
}

impl Outbox {
    /// Starts sending `what` under `head` over `connection`, every `interval` or when there is much.
    /// At most `bytes` and `items` wait.
    pub(super) fn start<A: Answer>(
        connection: Arc<Connection>,
        what: &'static str,
        head: Head,
        (bytes, items): (usize, u64),
        interval: Duration,
    ) -> Self {
        let batch = MAX_REQUEST_BYTES.saturating_sub(head.bytes());
        let queue = Arc::new(Queue::new(Bounds { bytes, items, batch }));
        let tally = Arc::<Lock<Tally>>::default();
        let sender = (Arc::clone(&queue), Arc::clone(&tally));
        let task = SendTask::start(connection, what, move |courier| {
            Sender { courier, head, queue: sender.0, tally: sender.1, interval }.run::<A>()
        });
        Self { queue, tally, task }
    }

    /// Adds an item. Never waits for the collector.
    pub(super) fn push(&self, item: Item) {
        let count = item.count;
        let gone = self.queue.push(item);
        let mut tally = self.tally.lock();
        tally.given += count;
        tally.lost += gone;
    }

    /// Returns the number of items so far that will not reach the collector.
    pub(super) fn lost(&self) -> u64 {
        self.tally.lock().lost
    }

    /// Ends the input; what waits is sent.
    pub(super) fn close(&self) {
        self.task.hurry();
        self.queue.close();
    }

    /// Waits until the rest is sent, at most until `deadline` and until the user interrupts the run,
    /// and drops what is left.
    pub(super) fn finish(&self, deadline: Nanos, interrupt: &Interrupt) -> Tally {
        self.close();
        self.task.end(deadline, interrupt);
        let tally = *self.tally.lock();
        // What is still being sent counts as lost, too.
        Tally { lost: tally.given - tally.sent, ..tally }
    }
}

/// The parts that all requests of a signal have in common; none, if each item has its own.
#[derive(Default)]
pub(super) struct Head(Option<Envelope>);

struct Envelope {
    /// An encoded `ResourceSpans` or `ResourceLogs` without its scopes.
    resource: Vec<u8>,
    /// An encoded `ScopeSpans` or `ScopeLogs` without its items.
    scope: Vec<u8>,
}

impl Head {
    pub(super) fn new(
        (resource, conventions): (&opentelemetry_sdk::Resource, Conventions),
    ) -> Self {
        let pairs = resource
            .iter()
            .map(|(key, value)| opentelemetry::KeyValue::new(key.clone(), value.clone()));
        let resource = Resource { attributes: Attributes::from(pairs).0, ..Resource::default() };
        let schema_url = conventions.scope_schema_url().to_owned();
        let scope = Some(protobuf::scope());
        // The messages for logs have the same fields.
        let scope = ScopeSpans { scope, schema_url, spans: Vec::new() };
        let schema_url = conventions.resource_schema_url().to_owned();
        let resource =
            ResourceSpans { resource: Some(resource), schema_url, scope_spans: Vec::new() };
        Self(Some(Envelope { resource: resource.encode_to_vec(), scope: scope.encode_to_vec() }))
    }

    /// Returns its size within a request.
    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |of| 2 * FRAME + of.resource.len() + of.scope.len())
    }

    /// Builds the request with these items.
    pub(super) fn request(&self, items: &[Item]) -> Bytes {
        let items = items.iter().map(|item| item.encoded.as_slice());
        let Some(Envelope { resource, scope }) = &self.0 else {
            return items.collect::<Vec<_>>().concat().into();
        };
        let pieces: Vec<&[u8]> = [scope.as_slice()].into_iter().chain(items).collect();
        let mut content = resource.clone();
        append(SCOPES, &pieces, &mut content);
        let mut body = Vec::with_capacity(FRAME + content.len());
        append(RESOURCES, &[&content], &mut body);
        body.into()
    }
}

/// The sending task.
struct Sender {
    courier: Courier,
    head: Head,
    queue: Arc<Queue<Item>>,
    tally: Arc<Lock<Tally>>,
    interval: Duration,
}

impl Sender {
    async fn run<A: Answer>(mut self) {
        loop {
            self.queue.gather(self.interval).await;
            let Some(batch) = self.queue.next().await else { return };
            let request = self.head.request(&batch);
            let items: u64 = batch.iter().map(|item| item.count).sum();
            let is_unsupported = self.tally.lock().is_unsupported;
            if is_unsupported {
                self.tally.lock().lost += items;
                continue;
            }
            match self.courier.send::<A>(&request).await {
                Ok(rejected) => {
                    let mut tally = self.tally.lock();
                    tally.sent += items;
                    tally.rejected += rejected;
                }
                Err(failure) => {
                    let mut tally = self.tally.lock();
                    tally.lost += items;
                    tally.is_unsupported = A::IS_OPTIONAL && failure.is_unsupported;
                    drop(tally);
                    if failure.is_passing && self.queue.is_closed() {
                        return;
                    }
                }
            }
        }
    }
}
