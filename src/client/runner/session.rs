//! A session: the turns of one conversation, sent one after the other.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use tokio::sync::oneshot;
use uuid::Uuid;

use base::redact::ShownUrl;
use base::units::{Clock, Nanos};
use dataset::Conversation;

use super::ahead::Made;
use super::phase::{Pace, Stop};
use super::request::Identified;
use super::slots::Slot;
use super::steps::{self, Steps};
use super::tree::{Begun, TreeRun};
use super::worker::PhaseWorker;
use crate::record::{Ancestry, ErrorKind, RequestRecord, TurnId};
use crate::schedule::tree::{Due, Hold, ROOT, Tree};
use crate::schedule::{PhaseKind, Users};
use crate::transport::{EventWatch, Notifications, OutgoingRequest, SessionConnection};

/// Data that the requests of a conversation share.
pub(super) struct Session<'a> {
    pub(super) run: &'a Arc<TreeRun>,
    pub(super) stream: usize,
    index: usize,
    /// Index of the first turn that the phase sends.
    first_turn: usize,
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
    /// Returns the conversation, and the body of its first request if that is built.
    fn found(&self) -> Found<'_> {
        match &self.run.made {
            Some(made) => Found::Made(made),
            None => Found::At(self.index),
        }
    }

    /// Returns the number of conversations above it in its tree.
    pub(super) fn depth(&self) -> u32 {
        self.ancestry.map_or(0, |place| place.depth)
    }

    /// Returns the ID of the trace that its requests have in common: that of the conversation that
    /// the session began with. `None` if it is not an agent's, so that its request is a trace.
    fn trace_id(&self) -> Option<Uuid> {
        let root = self.ancestry.map_or(self.correlation_id, |place| place.root);
        self.conversation.is_agent().then_some(root)
    }
}

/// How the turns of a conversation ended.
#[derive(Default)]
pub(super) struct Ending {
    /// Whether all were sent.
    is_whole: bool,
    /// Whether any was sent.
    has_begun: bool,
    /// Whether the last one failed.
    has_failed: bool,
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
    /// See [`RequestRecord::held_by`].
    pub(super) held_by: Option<Hold>,
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
    /// Sends the turns of session `number`, or a canary instead, and the conversations that it starts, and
    /// returns when its last response ended. It is one of the `tenant`, if tenants share the load. `first`
    /// has the times of the first turn. `user` is the user that the session belongs to, if any.
    pub(super) async fn session(
        self: &Rc<Self>,
        number: u64,
        tenant: Option<usize>,
        first: SendTimes,
        user: Option<&UserTurns>,
    ) -> Nanos {
        let workload = &self.shared.workload;
        let tenant_of = workload.tenant(tenant);
        let own = tenant_of.and_then(|it| it.conversations.get(self.phase.dataset));
        let is_measured = self.phase.kind == PhaseKind::Profiling;
        let canary = workload.canary(number).filter(|_| is_measured);
        let root = match (canary, own) {
            (Some(canary), _) => canary,
            (None, Some(own)) => own.draw(self.phase.shard),
            (None, None) => self.phase.conversation(number),
        };
        let made = workload.made(root);
        let (of, root) = match &made {
            Some(made) => (std::slice::from_ref(&*made.conversation), 0),
            None => (self.conversations(), root),
        };
        let (tree, born) = Tree::begin(of, root, first.issued.into());
        let run =
            Arc::new(TreeRun::new(tree, (number, tenant), None, first.issued).with_made(made));
        self.start(&run, &born);
        if !self.send(&run, ROOT, Some(first), user).await.is_whole {
            self.phase.counters.session_cut_short();
        }
        run.ended().await
    }

    pub(super) fn conversations(&self) -> &[Conversation] {
        &self.shared.workload.dataset.conversations
    }

    /// Has tasks send those of the streams that others started.
    pub(super) fn start(self: &Rc<Self>, run: &Arc<TreeRun>, born: &[usize]) {
        for stream in born.iter().copied().filter(|stream| *stream != ROOT) {
            // Boxed, since a child may have children.
            let child: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(Rc::clone(self).child(Arc::clone(run), stream));
            run.add(tokio::task::spawn_local(child));
        }
    }

    /// Sends the turns of a conversation that another one started.
    async fn child(self: Rc<Self>, run: Arc<TreeRun>, stream: usize) {
        let conversation = self.conversations().get(run.with(|tree| tree.conversation(stream)));
        let is_delayed = conversation.is_some_and(|it| {
            it.inherited_turns == 0 && it.turns.first().is_some_and(|it| it.delay > Nanos::ZERO)
        });
        let ending = self.send(&run, stream, None, None).await;
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
    }

    /// Returns what the requests of a stream, which has begun, share; `None` if there is no such conversation.
    pub(super) fn session_of<'a>(
        &'a self,
        run: &'a Arc<TreeRun>,
        stream: usize,
        user: Option<&'a UserTurns>,
    ) -> Option<(Session<'a>, Vec<Option<Arc<str>>>)> {
        let at = run.with(|tree| tree.conversation(stream));
        let all = run.conversations(self.conversations());
        let conversation = all.get(at)?;
        let is_canary = run.made.is_none() && self.shared.workload.dataset.canary(at).is_some();
        let marker = |id| if is_canary { None } else { self.marker(id) };
        let begun = run.begun(all, stream, &mut || self.shared.new_id(), &marker);
        let Begun { correlation_id, ancestry, marker, answers } = begun;
        let session = Session {
            run,
            stream,
            index: run.made.as_ref().map_or(at, |made| made.index),
            first_turn: run.with(|tree| tree.next(stream)).unwrap_or_default(),
            conversation,
            server: self.shared.workload.targets.server(run.number),
            correlation_id,
            ancestry,
            connection: SessionConnection::default(),
            user,
            marker,
        };
        Some((session, answers))
    }

    /// Returns the marker of the prompts of the session `id`.
    fn marker(&self, id: Uuid) -> Option<Arc<str>> {
        let is_warmup = self.phase.kind == PhaseKind::Warmup;
        self.shared.workload.cache_bust.marker(id, is_warmup)
    }

    /// Sends the turns of a stream that are left; returns how they ended. A turn after a
    /// failed turn is sent with the history that exists, so that the load stays as configured.
    /// `first` has the times of the first one; without them, it is sent like a later turn.
    pub(super) async fn send(
        self: &Rc<Self>,
        run: &Arc<TreeRun>,
        stream: usize,
        mut first: Option<SendTimes>,
        user: Option<&UserTurns>,
    ) -> Ending {
        let mut ending = Ending::default();
        let all = run.conversations(self.conversations());
        let Some((session, mut answers)) = self.session_of(run, stream, user) else {
            return ending;
        };
        let conversation = session.conversation;
        // The next phase of a lane continues it, too.
        let is_continued_elsewhere = run.lane.is_some() || conversation.has_forks();
        while let Some(turn) = run.with(|tree| tree.next(stream)) {
            let is_suspended = run.hold(stream) == Some(Hold::Join);
            let cleared = self.cleared(&session, turn, first.take()).await;
            if is_suspended {
                self.phase.counters.count_branch(|stats| {
                    stats.parents_suspended += 1;
                    stats.parents_resumed += u64::from(cleared.is_some());
                    stats.joins_suppressed += u64::from(cleared.is_none());
                });
            }
            let Some((mut send, slot)) = cleared else {
                // The next phase of a lane goes on with it; nothing else does.
                if run.lane.is_none() || self.phase.stop() == Stop::No {
                    run.abandon(all, stream, self.moment(Clock::now()));
                }
                return ending;
            };
            ending.has_begun = true;
            if slot.free_from > Nanos::ZERO {
                (send.issued, send.free_from) = (slot.free_from, slot.free_from);
            }
            let born = run.sent(all, stream, self.moment(send.issued));
            self.note(run, send.issued);
            self.start(run, &born);
            let mut record = self.request(&session, turn, &answers, send, slot).await;
            let end = record.end;
            let is_last = turn + 1 == conversation.len();
            // A turn that contains its whole history does not repeat the response.
            let is_repeated =
                !conversation.standalone_turns && (!is_last || conversation.forks_after(turn));
            let ends_if_failed = self.phase.ends_failed_sessions && !is_last;
            let answer = if is_repeated || ends_if_failed { self.answer(&record) } else { None };
            let ends = is_last
                || (ends_if_failed && answer.is_none())
                || self.exceeds_context(run, &record);
            record.turn.is_final = ends && stream == ROOT;
            ending.has_failed = record.has_failed();
            self.observe_lane(&session, &record);
            self.shared.queue.push(record);
            if is_repeated {
                // A lane that enters a conversation in the middle does not know the responses before.
                answers.resize(turn, None);
                answers.push(answer);
                if is_continued_elsewhere {
                    run.keep_answers(stream, &answers);
                }
            }
            let born = run.returned(all, stream, ends, self.moment(end));
            self.note(run, end);
            self.start(run, &born);
            ending.is_whole = ends;
        }
        ending
    }

    /// Waits until a turn may be sent: the first one, which has the times of `first`, or a later one.
    /// Returns when it was due, and its slot; `None` if it will not be sent.
    async fn cleared(
        &self,
        session: &Session<'_>,
        turn: usize,
        first: Option<SendTimes>,
    ) -> Option<(SendTimes, Slot)> {
        let mut send = match first {
            Some(first) => first,
            None => self.later_turn(session, turn).await?,
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

    /// Waits until a later turn is to be sent, and takes a request from the budget. Returns `None` if the
    /// turn will not be sent.
    async fn later_turn(&self, session: &Session<'_>, turn: usize) -> Option<SendTimes> {
        if let Pace::Lanes(_) = self.phase.pace {
            return self.turn_of_lane(session).await;
        }
        let ready = self.unheld(session).await?;
        let turn = session.conversation.turn(turn)?;
        let due = match (self.phase.pace, session.user) {
            (Pace::Trace, _) => {
                Some(turn.timestamp.map_or(ready, |timestamp| self.phase.at(timestamp)))
            }
            (_, Some(user)) => Some(self.phase.at(user.next_due()?)),
            (_, None) => None,
        };
        let is_sending = self.phase.wait_until(due.unwrap_or(ready), &self.shared.timer).await;
        let due = match self.phase.pace {
            Pace::Rate if is_sending => Some(self.due_for_turn(session.run.tenant).await?),
            _ => due,
        };
        let send = SendTimes { due, issued: Clock::now(), free_from: ready, held_by: None };
        (is_sending && self.phase.next_turn()).then_some(send)
    }

    /// Waits until only time holds the next turn back, and returns when it may be sent; `None` if the
    /// phase stops sending first.
    async fn unheld(&self, session: &Session<'_>) -> Option<Nanos> {
        loop {
            let changed = session.run.changed();
            match session.run.due(session.stream, Nanos::ZERO) {
                Due::At(ready) => return Some(ready),
                Due::Never => return None,
                Due::Held(_) => {}
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.phase.stopped(Stop::Sending) => return None,
            }
        }
    }

    /// Returns the text that later turns repeat; `None` if the request failed. It is extracted
    /// here, because the next turn may need it before a processor has read the record.
    pub(super) fn answer(&self, record: &RequestRecord) -> Option<Arc<str>> {
        if record.has_failed() {
            return None;
        }
        let response = self.shared.workload.endpoint.parse(&record.body);
        response.error.is_none().then(|| response.output_text.into())
    }

    pub(super) async fn request(
        &self,
        session: &Session<'_>,
        turn: usize,
        answers: &[Option<Arc<str>>],
        times: SendTimes,
        prefill_slot: Slot,
    ) -> RequestRecord {
        let SendTimes { due, issued, free_from, held_by } = times;
        let workload = &self.shared.workload;
        let due_while_asleep = due.is_some_and(|due| self.shared.sleep.covers(due));
        let request_id = self.shared.new_id();
        let marks = Marks {
            marker: session.marker.as_deref(),
            asks_for_one_token: self.phase.asks_for_one_token(),
        };
        let payload = workload.body(session.found(), turn, answers, marks);
        let asked = session.conversation.turn(turn);
        let model = asked.map_or_else(|| Arc::from(""), |turn| Arc::clone(&turn.model));
        let (target, path) = workload.targets.for_model(session.server, &model);
        let correlation_id = session.correlation_id;
        let of_agent = session.trace_id().filter(|_| !workload.builder.traces_each_request());
        let trace_id = of_agent.unwrap_or(request_id);
        let tenant = workload.tenant(session.run.tenant);
        let builder = tenant.map_or(&*workload.builder, |tenant| &tenant.builder);
        let parent = session.ancestry.filter(|place| place.depth > 0).map(|place| place.parent);
        let headers = Identified { builder, request_id, correlation_id, parent, trace_id };
        let request = OutgoingRequest {
            target: session.server,
            method: Method::POST,
            path,
            headers: &headers,
            body: payload.clone(),
        };
        let _in_flight = self.phase.enter();
        self.phase.counters.request_sent(Clock::now());
        self.count_in_flight(session, turn, false);
        let give_up = self.phase.gives_up_after(session.run.number, turn);
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
        self.count_in_flight(session, turn, true);
        let turn_id = TurnId {
            session: session.run.number,
            conversation: session.index,
            turn,
            first: session.first_turn,
            is_final: false,
        };
        RequestRecord {
            turn: turn_id,
            grown: session.run.made.as_ref().map(|made| made.conversation.clone()),
            phase: self.phase.kind,
            phase_index: self.phase.index,
            worker: self.shared.id,
            request_id,
            correlation_id,
            trace_id,
            ancestry: session.ancestry,
            lane: session.run.lane.as_ref().map(|lane| lane.place as u32),
            held_by,
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

/// The differences of a request from its turn in the dataset.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks<'a> {
    /// Marker of its prompt, if it has one.
    pub(super) marker: Option<&'a str>,
    /// Whether it asks for a single token.
    pub(super) asks_for_one_token: bool,
}

/// A conversation of the dataset.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found<'a> {
    /// The one with this index.
    At(usize),
    /// One that was made while the run goes on.
    Made(&'a Made),
}

impl super::Workload {
    /// Returns the conversation with this index, if it is not one of those that exist before the run.
    fn made(&self, index: usize) -> Option<Made> {
        let ahead = self.ahead.as_ref()?;
        (index >= self.dataset.conversations.len()).then(|| ahead.take(index))
    }

    /// Returns the body of a request, which is built before it is due if it never changes.
    pub(super) fn body(
        &self,
        found: Found<'_>,
        turn: usize,
        answers: &[Option<Arc<str>>],
        marks: Marks<'_>,
    ) -> Bytes {
        let (found, built) = match found {
            Found::Made(made) => (Some(&*made.conversation), Some(&made.body)),
            Found::At(at) => (self.dataset.conversations.get(at), self.first_bodies.get(at)),
        };
        let Some(found) = found else { return Bytes::new() };
        let Marks { marker, asks_for_one_token } = marks;
        if marker.is_none() && !asks_for_one_token {
            let built = built.filter(|_| turn == 0);
            return built
                .cloned()
                .unwrap_or_else(|| self.endpoint.request_body(found, turn, answers).into());
        }
        // A turn that contains its history does not need the others.
        let (mut own, turn) =
            if found.standalone_turns { (found.alone(turn), 0) } else { (found.clone(), turn) };
        if let Some(asked) = own.turn_mut(turn).filter(|_| asks_for_one_token) {
            asked.max_tokens = Some(1);
            asked.extra.retain(|(name, _)| name != "min_tokens");
        }
        let own = match marker {
            Some(marker) => self.cache_bust.mark(&own, marker),
            None => own,
        };
        self.endpoint.request_body(&own, turn, answers).into()
    }
}
