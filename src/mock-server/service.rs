//! Routes, and the handling of a request from its arrival to its last byte.

mod answer;
mod latest;
mod rate_limit;

use std::borrow::Cow;
use std::future::pending;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use memchr::memmem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::rustls::ServerConfig;

use base::lock::Lock;
use base::timer::Timer;
use base::units::{Clock, Nanos};

use self::answer::{Answer, announce, models_body, not_found, plain, response, too_large};
use self::latest::LatestPrompts;
use self::rate_limit::RateLimit;
use super::activity::{Activity, Finish, InFlight};
use super::connection::{Came, Framing, Handed, Pace, Tracked, Wire};
use super::dialect::{Call, Dialect, LookupResult, Purpose, Route, SCRIPTED, json_string};
use super::prefix_cache::PrefixCache;
use super::reply::{Events, Reply, ReplyContent, Wording};
use super::request::{BadRequest, Prompt};
use super::schedule::{Schedule, mix};
use super::script::{Arrival, Fault, Script, UsageReport};
use super::timing::{PendingSpans, Report, SpanSender};
use super::vocabulary::{PromptCounter, encode};
use super::write_log::{EventKind, RequestLog, WriteLog};
use super::{JSON, dialect};

/// Maximum size of a request body.
const MAX_BODY: usize = 64 << 20;

const VERSION: &str = concat!(r#"{"version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// State shared by all connections of a server.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) script: Script,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) activity: Arc<Activity>,
    pub(super) log: Option<Arc<WriteLog>>,
    pub(super) spans: Option<Arc<SpanSender>>,
    clock: Clock,
    material: Arc<ReplyContent>,
    prompts: PromptCounter,
    slots: Option<Arc<Semaphore>>,
    rate_limit: Option<Lock<RateLimit>>,
    /// When the first request arrived.
    began: OnceLock<Nanos>,
    cache: Option<Lock<PrefixCache>>,
    /// What responses may begin with, if the script has such a fault.
    latest: Option<Lock<LatestPrompts>>,
    /// The body of `/v1/models`.
    models: Bytes,
}

/// A client's connection, as its requests see it.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) service: Arc<Service>,
    pub(super) wire: Arc<Wire>,
    pub(super) timer: Timer,
}

/// The script requires that this connection is closed without a response.
#[derive(Debug, thiserror::Error)]
#[error("closed without an answer, as the script says")]
pub(super) struct Closed;

/// The work for a request.
struct Order {
    dialect: &'static dyn Dialect,
    /// The model's name as a JSON string.
    model: String,
    stream: bool,
    tell_usage: bool,
    wording: Wording,
    prompt_tokens: u64,
    /// The tokens of the prompt, if there is a prefix cache.
    prompt: Vec<u32>,
    choices: u64,
    plain: bool,
    tokens: u64,
    finish: Finish,
    /// Whether the output may end before the limit.
    may_end: bool,
}

impl Service {
    pub(super) fn new(
        script: Script,
        tls: Option<Arc<ServerConfig>>,
        log: Option<Arc<WriteLog>>,
        spans: Option<Arc<SpanSender>>,
    ) -> Self {
        let clock = Clock::start();
        let created = clock.wall_ns(Clock::now()) / 1_000_000_000;
        Self {
            tls,
            activity: Arc::default(),
            log,
            spans,
            clock,
            material: Arc::new(ReplyContent::new(&script)),
            prompts: PromptCounter::default(),
            slots: script.max_concurrent.map(|n| Arc::new(Semaphore::new(n))),
            rate_limit: script.rate_limit.map(|rate| Lock::new(RateLimit::new(rate))),
            began: OnceLock::new(),
            cache: script.prefix_cache.map(|size| Lock::new(PrefixCache::new(size))),
            latest: script.has_crosstalk().then(Lock::default),
            models: models_body(&script.models, created),
            script,
        }
    }

    /// Returns what a call asks for, or the response that it gets instead.
    fn order(
        &self,
        dialect: &'static dyn Dialect,
        call: &Call<'_>,
    ) -> Result<Order, (StatusCode, Bytes)> {
        let ask = dialect.read(call).map_err(|BadRequest { message, param }| {
            let body = dialect.error(&message, "BadRequestError", param, 400);
            (StatusCode::BAD_REQUEST, body.into())
        })?;
        let model = ask.model.as_deref().unwrap_or(&self.script.models[0]);
        if self.script.strict_models && !self.script.models.iter().any(|known| known == model) {
            let message = format!("The model `{model}` does not exist.");
            let body = dialect.error(&message, "NotFoundError", Some("model"), 404);
            return Err((StatusCode::NOT_FOUND, body.into()));
        }
        let tokens_of = |prompt: &Prompt<'_>| match prompt {
            Prompt::Text(text) => encode(text),
            Prompt::TokenIds(ids) => ids.clone(),
        };
        let looks_up = self.cache.is_some() && dialect.generates();
        let prompt = ask.prompts.iter().filter(|_| looks_up).flat_map(tokens_of).collect();
        let (tokens, finish) = match ask.max_tokens {
            _ if !dialect.generates() => (0, Finish::Stop),
            Some(limit) => (limit, Finish::Length),
            None => (self.script.output_tokens, Finish::Stop),
        };
        let measured = self.prompts.measure(&ask.prompts);
        let stream = ask.stream || call.route.purpose == Purpose::Stream;
        Ok(Order {
            dialect,
            model: json_string(model),
            stream,
            tell_usage: match self.script.usage {
                UsageReport::Never => false,
                UsageReport::Asked => ask.tell_usage,
                UsageReport::Always => true,
            },
            wording: self.wording(measured.hash, &ask.prompts),
            prompt_tokens: measured.tokens,
            prompt,
            choices: ask.choices,
            plain: ask.plain,
            tokens,
            finish,
            may_end: !has_minimum(call.body),
        })
    }

    /// Returns the text for prompts with this hash.
    fn wording(&self, hash: u64, prompts: &[Prompt<'_>]) -> Wording {
        let texts = prompts.iter().rev().filter_map(|prompt| match prompt {
            Prompt::Text(text) => Some(&**text),
            Prompt::TokenIds(_) => None,
        });
        let last = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let wording = match &self.latest {
            None => Wording { start: hash, ..Wording::default() },
            Some(latest) => {
                let other = latest.lock().replace(hash, last).unwrap_or_default();
                Wording::with_prompt(hash, &other)
            }
        };
        wording.copying(last)
    }

    /// Looks the prompt of an admitted request up in the prefix cache, if there is one. Returns how
    /// many of its tokens were cached.
    fn look_up(&self, order: &Order) -> Option<u64> {
        let cache = self.cache.as_ref().filter(|_| order.dialect.generates())?;
        let cached = cache.lock().admit(&order.prompt);
        self.activity.looked_up(order.prompt.len() as u64, cached);
        Some(cached)
    }

    /// Returns the time to the first token of a request, of which `cached` tokens need no prefill.
    fn ttft(&self, order: &Order, cached: Option<u64>) -> Nanos {
        let computed = order.prompt_tokens.saturating_sub(cached.unwrap_or(0));
        let prefill = self.script.prefill_per_token.0.saturating_mul(computed);
        Nanos(self.script.ttft.0.saturating_add(prefill))
    }

    fn reply(
        &self,
        order: Order,
        begun: Arrival,
        [arrival, origin, ttft]: [Nanos; 3],
        cached: Option<u64>,
        fault: Option<Fault>,
    ) -> Reply {
        let reasons = order.dialect.reasons();
        let reasoning = if reasons { self.script.reasoning_tokens.min(order.tokens) } else { 0 };
        let number = begun.number;
        let factor = match fault {
            Some(Fault::Lie { factor }) => factor,
            _ => 1,
        };
        let mut reply = Reply {
            material: self.material.clone(),
            dialect: order.dialect,
            id: mix(self.script.seed, number),
            created: self.clock.wall_ns(arrival) / 1_000_000_000,
            model: order.model,
            choices: order.choices,
            plain: order.plain,
            wording: order.wording,
            tokens: order.tokens,
            reasoning,
            per_chunk: self.script.tokens_per_chunk,
            form: self.script.form(),
            finish: order.finish,
            usage: order.tell_usage.then_some(order.prompt_tokens),
            cached,
            fault,
            prelude: String::new(),
            ready: Nanos::ZERO,
            work: Nanos::ZERO,
            report: None,
        };
        if order.may_end {
            reply.end_after_copy();
        }
        reply.wording.turn = self.script.turn(begun, reply.tokens);
        reply.truncate();
        let waited = origin.since(arrival);
        reply.report = Report::new(&self.script, number, [waited, ttft], reply.chunks(), factor);
        reply
    }

    /// Returns the spans of the request with this reply, if any are sent; removes the times from the
    /// reply if they are only in spans.
    fn spans_of(
        &self,
        reply: &mut Reply,
        arrival: Nanos,
        headers: &http::HeaderMap,
    ) -> Option<PendingSpans> {
        let (sender, export) = (self.spans.as_ref()?, self.script.timing?.spans?);
        let report = if export.is_only { reply.report.take() } else { reply.report }?;
        let ignores = reply.fault == Some(Fault::NewTrace);
        let start_ns = self.clock.wall_ns(arrival);
        PendingSpans::for_request(sender, report, headers, reply.id, start_ns, ignores)
    }
}

/// Returns whether a body asks for a minimum number of tokens.
fn has_minimum(body: &[u8]) -> bool {
    let has = |text: &[u8]| memmem::find(body, text).is_some();
    has(b"\"ignore_eos\":true") || has(b"\"min_tokens\":")
}

impl Connection {
    /// Responds to a request.
    pub(super) async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Answer>, Closed> {
        let came = self.wire.arrival();
        let service = &self.service;
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/v1/models") => Ok(plain(JSON, service.models.clone())),
            (&Method::GET, "/health") | (&Method::POST, "/start_profile" | "/stop_profile") => {
                Ok(plain(JSON, Bytes::new()))
            }
            (&Method::GET, "/version") => Ok(plain(JSON, Bytes::from_static(VERSION.as_bytes()))),
            (&Method::GET, "/metrics") => {
                let Script { models, kv_cache_tokens, prefix_cache, .. } = &service.script;
                let model = &models[0];
                let has_cache = prefix_cache.is_some();
                let text = service.activity.exposition(model, *kv_cache_tokens, has_cache);
                Ok(plain(EXPOSITION, Bytes::from(text)))
            }
            (&Method::POST, "/reset_prefix_cache") => {
                service.cache.iter().for_each(|cache| cache.lock().reset());
                Ok(plain(JSON, Bytes::new()))
            }
            (method, path) => match dialect::find(method, path) {
                Some((dialect, route)) if route.purpose == Purpose::LookUp => {
                    let call = Call::new(route, path, request.headers(), b"");
                    Ok(match dialect.look_up(&call, Clock::now()) {
                        Some(LookupResult { media_type, body }) => plain(media_type, body),
                        None => not_found(path),
                    })
                }
                Some((dialect, route)) => self.generate(dialect, route, came, request).await,
                None => Ok(not_found(path)),
            },
        }
    }

    async fn generate(
        &self,
        dialect: &'static dyn Dialect,
        route: &'static Route,
        came: Came,
        request: Request<Incoming>,
    ) -> Result<Response<Answer>, Closed> {
        let arrival = came.read;
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Ok(too_large()),
            // The client has disconnected.
            Err(_) => return Err(Closed),
        };
        let call = Call::new(route, head.uri.path(), &head.headers, &body);
        let order = match self.service.order(dialect, &call) {
            Ok(order) => order,
            Err((status, body)) => return Ok(response(status, JSON, Answer::whole(body))),
        };
        let service = &self.service;
        let began = *service.began.get_or_init(|| arrival);
        let mut in_flight = service.activity.arrive(arrival);
        let number = in_flight.beginning().number;
        let fault = self.service.script.fault_for(in_flight.beginning()).cloned();
        let log = RequestLog {
            request_id: None,
            number,
            path: Cow::Borrowed(route.path),
            connected: came.connected,
            received: came.received,
            arrival,
            admitted: arrival,
            prompt_tokens: order.prompt_tokens,
            status: None,
            events: Vec::new(),
            complete: false,
            cut: false,
        };
        self.track(log, &head.headers, fault.as_ref());
        match &fault {
            Some(Fault::Hang) => return pending().await,
            Some(Fault::CloseBeforeResponse) => {
                self.wire.refuse();
                return Err(Closed);
            }
            Some(Fault::Status { code, body }) => {
                in_flight.finish(Finish::Error);
                return Ok(self.refuse(dialect, arrival, *code, body.as_deref()));
            }
            _ => {}
        }
        if let Some(wait) = service.rate_limit.as_ref().and_then(|it| it.lock().refuses(arrival)) {
            in_flight.finish(Finish::Error);
            let mut refusal = self.refuse(dialect, arrival, 429, None);
            refusal.headers_mut().insert(RETRY_AFTER, wait.into());
            return Ok(refusal);
        }
        let (origin, permit) = self.turn(arrival).await;
        in_flight.admit(order.prompt_tokens, permit);
        let cached = self.service.look_up(&order);
        let ttft = self.service.ttft(&order, cached);
        let stream = order.stream;
        let times = [arrival, origin, ttft];
        let mut reply = service.reply(order, in_flight.beginning(), times, cached, fault);
        let (numbers, times) = ([number, reply.chunks()], [began, origin, ttft]);
        let schedule = Schedule::new(&service.script, numbers, times, reply.fault.as_ref());
        in_flight.report(self.service.spans_of(&mut reply, arrival, &head.headers));
        if stream {
            Ok(self.stream(head.version, Events::new(reply, schedule), in_flight).await)
        } else {
            Ok(self.whole(reply, arrival, schedule, in_flight).await)
        }
    }

    /// Has the bytes of this response counted, if needed.
    fn track(&self, log: RequestLog, headers: &http::HeaderMap, fault: Option<&Fault>) {
        let drip = match fault {
            Some(Fault::DripBytes { pause }) => Some(Pace { interval: *pause, bytes: 1 }),
            _ => None,
        };
        let is_paced = self.service.script.write_interval > Nanos::ZERO;
        let log = self.service.log.as_ref().map(|sink| {
            let id = headers.get("x-request-id").and_then(|value| value.to_str().ok());
            (RequestLog { request_id: id.map(str::to_owned), ..log }, sink.clone())
        });
        if log.is_some() || fault.is_some() || is_paced {
            self.wire.begin(Tracked::new(log, drip));
        }
    }

    /// Waits for a slot. Returns the instant at which the schedule starts.
    async fn turn(&self, arrival: Nanos) -> (Nanos, Option<OwnedSemaphorePermit>) {
        let Some(slots) = &self.service.slots else { return (arrival, None) };
        if let Ok(permit) = slots.clone().try_acquire_owned() {
            return (arrival, Some(permit));
        }
        // The semaphore is never closed, so there is always a permit.
        let permit = slots.clone().acquire_owned().await.ok();
        let admitted = Clock::now();
        self.wire.admit(admitted);
        (admitted, permit)
    }

    fn refuse(
        &self,
        dialect: &dyn Dialect,
        arrival: Nanos,
        code: u16,
        body: Option<&str>,
    ) -> Response<Answer> {
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match body {
            // Responses with these statuses never have a body.
            _ if matches!(code, 204 | 304) => Bytes::new(),
            Some(body) => Bytes::copy_from_slice(body.as_bytes()),
            None => dialect.error(SCRIPTED, "ScriptedError", None, code).into(),
        };
        self.wire.head(code, Framing::Plain);
        let (due, bytes) = (arrival, body.len());
        self.wire.hand(Handed {
            kind: EventKind::Whole,
            choice: 0,
            due,
            tokens: 0,
            bytes,
            last: true,
            cut: None,
        });
        response(status, JSON, Answer::whole(body))
    }

    async fn whole(
        &self,
        mut reply: Reply,
        arrival: Nanos,
        mut schedule: Schedule,
        in_flight: InFlight,
    ) -> Response<Answer> {
        let chunks = reply.chunks();
        let first = schedule.next_due();
        let last = (1..chunks).map(|_| schedule.next_due()).last().unwrap_or(first);
        (reply.ready, reply.work) = (last, last.since(arrival));
        let body = reply.whole();
        let (length, cut, tokens) = (body.len(), reply.whole_cut(body.len()), reply.whole_tokens());
        let media_type = reply.dialect.media_type(&reply);
        let (is_job, closes) = (reply.dialect.is_job(), reply.fault == Some(Fault::CloseAfterEach));
        let headers = reply.report.map_or_else(Vec::new, |report| report.headers());
        let work = Work { reply, first, last, is_cut: cut.is_some_and(|cut| cut < length) };
        let due = if is_job { arrival } else { last };
        if is_job {
            let timer = self.timer.clone();
            tokio::spawn(async move {
                timer.until(last).await;
                work.finish(in_flight);
            });
        } else {
            self.timer.until(last).await;
            work.finish(in_flight);
        }
        self.wire.head(200, Framing::Plain);
        let kind = EventKind::Whole;
        self.wire.hand(Handed { kind, choice: 0, due, tokens, bytes: length, last: true, cut });
        if closes {
            self.wire.close_after_this();
        }
        let mut response = response(StatusCode::OK, media_type, Answer::whole(body));
        response.headers_mut().extend(headers);
        announce(response, closes)
    }

    async fn stream(
        &self,
        version: Version,
        mut events: Events,
        in_flight: InFlight,
    ) -> Response<Answer> {
        let next = events.next();
        // The head and the first event are sent together.
        if let Some(event) = &next {
            self.timer.until(event.due).await;
        }
        let framing = if version < Version::HTTP_11 { Framing::Plain } else { Framing::Chunked };
        self.wire.head(200, framing);
        let interval = self.service.script.write_interval;
        if interval > Nanos::ZERO {
            self.wire.space_writes(interval);
        }
        let closes = events.closes_after();
        let answer = Answer::stream(self.clone(), next, events, in_flight);
        announce(response(StatusCode::OK, EVENT_STREAM, answer), closes)
    }
}

/// The generation of a response that is not streamed.
struct Work {
    reply: Reply,
    first: Nanos,
    last: Nanos,
    /// Whether the client gets an incomplete response.
    is_cut: bool,
}

impl Work {
    fn finish(&self, mut in_flight: InFlight) {
        if self.is_cut {
            in_flight.finish(Finish::Abort);
            return;
        }
        let tokens = self.reply.whole_tokens();
        if tokens > 0 {
            let rest = self.reply.tokens.saturating_sub(self.reply.per_chunk);
            in_flight.generated(tokens, self.first, rest, self.last);
        }
        in_flight.finish(self.reply.whole_finish());
    }
}
