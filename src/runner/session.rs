//! A session: the turns of one conversation, sent one after the other.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::branches::{Children, Origin};
use super::phase::{Pace, Stop};
use super::request::Identified;
use super::slots::Slot;
use super::steps::{self, Steps};
use super::worker::PhaseWorker;
use crate::dataset::{BranchStart, Conversation};
use crate::record::{Ancestry, ErrorKind, RequestRecord, TurnId};
use crate::redact::ShownUrl;
use crate::schedule::{PhaseKind, Users};
use crate::transport::{EventWatch, Notifications, OutgoingRequest, SessionConnection};
use crate::units::{Clock, Nanos};

/// Data that the requests of a session share.
pub(super) struct Session<'a> {
    pub(super) number: u64,
    /// Index of the tenant that it belongs to, if tenants share the load.
    pub(super) tenant: Option<usize>,
    index: usize,
    pub(super) conversation: &'a Conversation,
    server: usize,
    correlation_id: Uuid,
    /// Its place in a tree, if it is part of one.
    ancestry: Option<Ancestry>,
    connection: SessionConnection,
    user: Option<&'a UserTurns>,
    /// Marker of its prompts, if they have one.
    marker: Option<Arc<str>>,
}

impl Session<'_> {
    /// Returns the ID of the trace that its requests have in common: that of the conversation that
    /// the session began with. `None` if it is not an agent's, so that its request is a trace.
    fn trace_id(&self) -> Option<Uuid> {
        let root = self.ancestry.map_or(self.correlation_id, |place| place.root);
        self.conversation.is_agent().then_some(root)
    }

    /// Returns the place of the conversations that this one starts.
    pub(super) fn as_parent(&self) -> Ancestry {
        let own = self.ancestry.unwrap_or(Ancestry::of_root(self.correlation_id));
        own.of_child(self.correlation_id)
    }
}

/// How the turns of a conversation ended.
struct Ending {
    /// Whether all were sent.
    is_whole: bool,
    /// Whether any was sent.
    has_begun: bool,
    /// Whether the last one failed.
    has_failed: bool,
}

/// How far a conversation has come.
#[derive(Debug, Clone)]
pub(super) struct SoFar {
    /// The first turn to send.
    pub(super) turn: usize,
    /// The texts of the responses to all turns before, of which failed ones have none.
    pub(super) answers: Vec<Option<Arc<str>>>,
    /// When the last response ended.
    pub(super) last_end: Nanos,
    /// Marker of the prompts before, if they have one.
    pub(super) marker: Option<Arc<str>>,
}

/// When a request was due, and when it could be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendTimes {
    /// See [`RequestRecord::due`].
    pub(super) due: Option<Nanos>,
    /// See [`RequestRecord::issued`].
    pub(super) issued: Nanos,
    /// See [`RequestRecord::free_from`].
    pub(super) free_from: Nanos,
}

/// Due times of one user's turns, over all of the user's sessions.
pub(super) struct UserTurns {
    users: Users,
    user: u64,
    taken: Cell<u64>,
}

impl UserTurns {
    pub(super) const fn new(users: Users, user: u64) -> Self {
        Self { users, user, taken: Cell::new(0) }
    }

    /// Returns when the user's next turn is due, since the phase's start; `None` if there is none.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        let nth = self.taken.replace(self.taken.get() + 1);
        self.users.due(self.user, nth)
    }
}

impl PhaseWorker {
    /// Runs the turns of session `number`, and the conversations that it starts, and returns when its
    /// last response ended. It is one of the `tenant`, if tenants share the load. `first` has the times of the first turn. `user` is the user that the
    /// session belongs to, if any.
    pub(super) async fn session(
        self: &Rc<Self>,
        number: u64,
        tenant: Option<usize>,
        first: SendTimes,
        user: Option<&UserTurns>,
    ) -> Nanos {
        let workload = &self.shared.workload;
        let own = workload.tenant(tenant).and_then(|of| of.conversations.as_ref());
        let index = match own {
            Some(own) => own.draw(),
            None => self.phase.conversation(number, &workload.sampler),
        };
        let Some(session) = self.begin((number, tenant), index, (None, None), user) else {
            return first.issued;
        };
        let mut children = Children::default();
        let marker = session.marker.clone();
        let mut so_far = SoFar { turn: 0, answers: Vec::new(), last_end: first.issued, marker };
        let before = (None, BranchStart::Response);
        children.start(self, &session, before, &so_far, so_far.last_end);
        if !self.turns(&session, Some(first), &mut so_far, &mut children).await.is_whole {
            self.phase.counters.session_cut_short();
        }
        so_far.last_end.max(children.wait(None).await)
    }

    /// Runs the turns of a conversation that the session `number` starts, and returns when it
    /// ended. The requests belong to that session, but are not its last.
    pub(super) async fn child(self: Rc<Self>, number: u64, origin: Origin) -> Nanos {
        let Origin { conversation, began: mut so_far, ancestry, tenant } = origin;
        // A fork continues the prompts of its parent.
        let inherited = (so_far.marker.take(), Some(ancestry));
        let Some(session) = self.begin((number, tenant), conversation, inherited, None) else {
            return so_far.last_end;
        };
        so_far.marker.clone_from(&session.marker);
        let mut children = Children::default();
        children.start(&self, &session, (None, BranchStart::Response), &so_far, so_far.last_end);
        let first = session.conversation.turns.get(so_far.turn);
        let is_spawn = session.conversation.inherited_turns == 0;
        let is_delayed = is_spawn && first.is_some_and(|turn| turn.delay > Nanos::ZERO);
        let ending = self.turns(&session, None, &mut so_far, &mut children).await;
        if ending.has_begun {
            self.phase.counters.count_branch(|stats| {
                stats.children_spawned += 1;
                stats.children_delayed += u64::from(is_delayed);
                let ended = match ending {
                    Ending { is_whole: false, .. } => &mut stats.children_truncated,
                    Ending { has_failed: true, .. } => &mut stats.children_errored,
                    _ => &mut stats.children_completed,
                };
                *ended += 1;
            });
        }
        so_far.last_end.max(children.wait(None).await)
    }

    /// Begins the conversation `index` in session `number` of a tenant. Its prompts have the `marker`, or else
    /// their own, if they have one. Its place in a tree is that of a root without `ancestry`. Returns
    /// `None` if there is no such conversation.
    fn begin<'a>(
        &'a self,
        (number, tenant): (u64, Option<usize>),
        index: usize,
        (marker, ancestry): (Option<Arc<str>>, Option<Ancestry>),
        user: Option<&'a UserTurns>,
    ) -> Option<Session<'a>> {
        let workload = &self.shared.workload;
        let correlation_id = self.shared.new_id();
        let conversation = workload.dataset.conversations.get(index)?;
        let as_root = || {
            let is_root = !conversation.branches.is_empty();
            is_root.then(|| Ancestry::of_root(correlation_id))
        };
        Some(Session {
            number,
            tenant,
            index,
            conversation,
            server: workload.targets.server(number),
            correlation_id,
            ancestry: ancestry.or_else(as_root),
            connection: SessionConnection::default(),
            user,
            marker: marker.or_else(|| self.marker(correlation_id)),
        })
    }

    /// Returns the marker of the prompts of the session `id`.
    fn marker(&self, id: Uuid) -> Option<Arc<str>> {
        let is_warmup = self.phase.kind == PhaseKind::Warmup;
        self.shared.workload.cache_bust.marker(id, is_warmup)
    }

    /// Sends the turns from that of `so_far` on; returns how they ended. A turn after a
    /// failed turn is sent with the history that exists, so that the load stays as configured.
    /// `first` has the times of the first one; without them, it is sent like a later turn.
    async fn turns(
        self: &Rc<Self>,
        session: &Session<'_>,
        mut first: Option<SendTimes>,
        so_far: &mut SoFar,
        children: &mut Children,
    ) -> Ending {
        let mut ending = Ending { is_whole: false, has_begun: false, has_failed: false };
        let conversation = session.conversation;
        let turns = conversation.turns.len();
        let is_child = first.is_none();
        for turn in so_far.turn..turns {
            let is_delayed = children.delay(turn);
            let joined = children.wait(Some(turn)).await;
            let delay = conversation.turns[turn].delay;
            let ready = if conversation.waits_beside_branches {
                joined.max(so_far.last_end + delay)
            } else {
                joined.max(so_far.last_end) + delay
            };
            so_far.last_end = so_far.last_end.max(joined);
            let cleared = self.cleared(session, turn, first.take(), ready).await;
            if is_delayed {
                self.phase.counters.count_branch(|stats| {
                    stats.parents_suspended += 1;
                    stats.parents_resumed += u64::from(cleared.is_some());
                    stats.joins_suppressed += u64::from(cleared.is_none());
                });
            }
            let Some((mut send, slot)) = cleared else { return ending };
            ending.has_begun = true;
            if slot.free_from > Nanos::ZERO {
                (send.issued, send.free_from) = (slot.free_from, slot.free_from);
            }
            let issue = (Some(turn), BranchStart::Issue);
            children.start(self, session, issue, so_far, send.issued);
            let mut record = self.request(session, turn, &so_far.answers, send, slot).await;
            so_far.last_end = record.end;
            let is_last = turn + 1 == turns;
            let is_continued = !is_last || conversation.forks_after(turn);
            let answer = if is_continued { self.answer(&record) } else { None };
            let ends = is_last || (answer.is_none() && self.phase.ends_failed_sessions);
            record.turn.is_final = ends && !is_child;
            ending.has_failed = record.has_failed();
            self.shared.queue.push(record);
            if is_continued {
                so_far.answers.push(answer);
            }
            if ends && !is_last {
                break;
            }
            let response = (Some(turn), BranchStart::Response);
            children.start(self, session, response, so_far, so_far.last_end);
        }
        ending.is_whole = true;
        ending
    }

    /// Waits until a turn may be sent: the first one, which has the times of `first`, or a later one that
    /// is `ready` then.
    /// Returns when it was due, and its slot; `None` if it will not be sent.
    async fn cleared(
        &self,
        session: &Session<'_>,
        turn: usize,
        first: Option<SendTimes>,
        ready: Nanos,
    ) -> Option<(SendTimes, Slot)> {
        let mut send = match first {
            Some(first) => first,
            None => self.later_turn(session, turn, ready).await?,
        };
        if !self.hold_back(session, &mut send).await {
            return None;
        }
        Some((send, self.prefill_slot(session).await?))
    }

    /// Waits before the next attempt if a closed loop could not connect; returns whether the phase
    /// still sends then.
    async fn hold_back(&self, session: &Session<'_>, send: &mut SendTimes) -> bool {
        if !self.phase.is_closed_loop() {
            return true;
        }
        let Some(pause) = self.shared.pause(&self.phase.reach, session.server) else {
            return true;
        };
        self.phase.counters.held_back();
        let goes_on = self.phase.wait_until(Clock::now() + pause, &self.shared.timer).await;
        send.issued = Clock::now();
        send.free_from = send.issued;
        goes_on
    }

    /// Waits for a slot for the time to the first content; returns `None` if the phase stops
    /// sending first. The holder of the slot may need the connection that the session keeps
    /// meanwhile.
    async fn prefill_slot(&self, session: &Session<'_>) -> Option<Slot> {
        tokio::select! {
            biased;
            slot = self.phase.prefill_slot(&self.shared.timer) => slot,
            () = self.shared.client.give_way(&session.connection) => None,
        }
    }

    /// Waits until a later turn is to be sent, which is `ready` then unless the load says when, and takes
    /// a request from the budget. Returns `None` if the turn will not be sent.
    async fn later_turn(
        &self,
        session: &Session<'_>,
        turn: usize,
        ready: Nanos,
    ) -> Option<SendTimes> {
        let turn = &session.conversation.turns[turn];
        let due = match (self.phase.pace, session.user) {
            (Pace::Trace, _) => {
                Some(turn.timestamp.map_or(ready, |timestamp| self.phase.at(timestamp)))
            }
            (_, Some(user)) => Some(self.phase.at(user.next_due()?)),
            (_, None) => None,
        };
        let is_sending = self.phase.wait_until(due.unwrap_or(ready), &self.shared.timer).await;
        let due = match self.phase.pace {
            Pace::Rate if is_sending => Some(self.due_for_turn(session.tenant).await?),
            _ => due,
        };
        let send = SendTimes { due, issued: Clock::now(), free_from: ready };
        (is_sending && self.phase.next_turn()).then_some(send)
    }

    /// Returns the text that later turns repeat; `None` if the request failed. It is extracted
    /// here, because the next turn may need it before a processor has read the record.
    fn answer(&self, record: &RequestRecord) -> Option<Arc<str>> {
        if record.has_failed() {
            return None;
        }
        let response = self.shared.workload.endpoint.parse(&record.body);
        response.error.is_none().then(|| response.output_text.into())
    }

    async fn request(
        &self,
        session: &Session<'_>,
        turn: usize,
        answers: &[Option<Arc<str>>],
        times: SendTimes,
        prefill_slot: Slot,
    ) -> RequestRecord {
        let SendTimes { due, issued, free_from } = times;
        let workload = &self.shared.workload;
        let due_while_asleep = due.is_some_and(|due| self.shared.sleep.covers(due));
        let request_id = self.shared.new_id();
        let payload = workload.body(session.index, turn, answers, session.marker.as_deref());
        let asked = session.conversation.turns.get(turn);
        let model = asked.map_or_else(|| Arc::from(""), |turn| Arc::clone(&turn.model));
        let (target, path) = workload.targets.of(session.server, &model);
        let correlation_id = session.correlation_id;
        let of_agent = session.trace_id().filter(|_| !workload.builder.traces_each_request());
        let trace_id = of_agent.unwrap_or(request_id);
        let tenant = workload.tenant(session.tenant);
        let builder = tenant.map_or(&*workload.builder, |tenant| &tenant.builder);
        let headers = Identified { builder, request_id, correlation_id, trace_id };
        let request = OutgoingRequest {
            target: session.server,
            method: Method::POST,
            path,
            headers: &headers,
            body: payload.clone(),
        };
        self.phase.counters.request_sent(Clock::now());
        let give_up = self.phase.gives_up_after(session.number, turn);
        let (sent, was_sent) = give_up.map(|_| oneshot::channel()).unzip();
        let watch = Notifications { sent, event: self.first_content(prefill_slot) };
        let cancelled = self.cancelled(give_up, was_sent);
        let client = &self.shared.client;
        let mut cancelled = pin!(cancelled);
        let mut first =
            client.exchange(&request, &session.connection, watch, cancelled.as_mut()).await;
        self.phase.observe(session.server, &first);
        let exchange = match steps::next(&*workload.endpoint, None, &mut first) {
            None => first,
            // Boxed, so that usual requests do not need the memory for it.
            Some(step) => {
                let base = target.map_or("", |target| &**target.path_and_query.expose());
                let steps =
                    Steps { worker: &self.shared, request, base, connection: &session.connection };
                Box::pin(steps.follow(first, step, cancelled)).await
            }
        };
        let is_cancelled =
            exchange.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Cancelled);
        self.phase.counters.request_returned(exchange.end, is_cancelled);
        let turn_id =
            TurnId { session: session.number, conversation: session.index, turn, is_final: false };
        RequestRecord {
            turn: turn_id,
            phase: self.phase.kind,
            phase_index: self.phase.index,
            worker: self.shared.id,
            request_id,
            correlation_id,
            trace_id,
            ancestry: session.ancestry,
            tenant: tenant.map(|tenant| Arc::clone(&tenant.name)),
            model,
            url: target.map_or_else(ShownUrl::default, |target| target.url.clone()),
            payload,
            earlier_answers: answers.to_vec(),
            due,
            due_while_asleep,
            free_from,
            issued,
            start: exchange.start,
            sent: exchange.sent,
            ack: exchange.trace.headers_received,
            end: exchange.end,
            status: exchange.status,
            retry_count: exchange.retry_count,
            cancelled_at: is_cancelled.then_some(exchange.end),
            error: exchange.error,
            body: exchange.body,
            trace: exchange.trace,
            server_spans: Vec::new(),
        }
    }
}

impl PhaseWorker {
    /// Watches for the first event with content and then frees the slot. The end of the request
    /// frees it in any case.
    fn first_content(&self, slot: Slot) -> Option<EventWatch<'_>> {
        let endpoint = &self.shared.workload.endpoint;
        let mut slot = Some(Some(slot).filter(Slot::is_limited)?);
        Some(Box::new(move |event| {
            let has_content = endpoint.has_content(event);
            if has_content {
                drop(slot.take());
            }
            has_content
        }))
    }

    /// Waits until a request is to be cancelled: the phase is aborted, or `give_up` has passed
    /// since the request was completely sent.
    async fn cancelled(&self, give_up: Option<Nanos>, was_sent: Option<oneshot::Receiver<Nanos>>) {
        let (Some(delay), Some(was_sent)) = (give_up, was_sent) else {
            return self.phase.stopped(Stop::Now).await;
        };
        let delay_passed = async {
            match was_sent.await {
                Ok(sent) => self.shared.timer.until(sent + delay).await,
                // Nothing was sent, so the exchange ends by itself.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.phase.stopped(Stop::Now) => {}
            () = delay_passed => {}
        }
    }
}

impl super::Workload {
    /// Returns the body of a request, which is built before the run if it never changes. The prompt
    /// has the `marker`, if there is one.
    pub(super) fn body(
        &self,
        conversation: usize,
        turn: usize,
        answers: &[Option<Arc<str>>],
        marker: Option<&str>,
    ) -> Bytes {
        let found = self.dataset.conversations.get(conversation);
        if let (Some(marker), Some(found)) = (marker, found) {
            let found = self.cache_bust.mark(found, marker);
            return Bytes::from(self.endpoint.request_body(&found, turn, answers));
        }
        if turn == 0
            && let Some(body) = self.first_bodies.get(conversation)
        {
            return body.clone();
        }
        found.map_or_else(Bytes::new, |found| {
            Bytes::from(self.endpoint.request_body(found, turn, answers))
        })
    }
}
