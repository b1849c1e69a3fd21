//! A session: the turns of one conversation, sent one after the other.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::phase::{Pace, Slot, Stop};
use super::steps::{self, Steps};
use super::worker::PhaseWorker;
use crate::dataset::Conversation;
use crate::record::{ErrorKind, RequestRecord, TurnId};
use crate::schedule::Users;
use crate::transport::{EventWatch, OutgoingRequest, SessionConnection, Watch};
use crate::units::{Clock, Nanos};

/// Data that the requests of a session share.
struct Session<'a> {
    number: u64,
    index: usize,
    conversation: &'a Conversation,
    server: usize,
    correlation_id: Uuid,
    connection: SessionConnection,
    user: Option<&'a UserTurns>,
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
    /// Runs the turns of session `number`. `first` has the times of the first turn. `user` is the
    /// user that the session belongs to, if any.
    pub(super) async fn session(&self, number: u64, first: SendTimes, user: Option<&UserTurns>) {
        let workload = &self.shared.workload;
        let index = self.phase.conversation(number, &workload.sampler);
        let Some(conversation) = workload.dataset.conversations.get(index) else { return };
        let session = Session {
            number,
            index,
            conversation,
            server: workload.targets.server(number),
            correlation_id: self.shared.new_id(),
            connection: SessionConnection::default(),
            user,
        };
        if !self.turns(&session, first).await {
            self.phase.counters.session_cut_short();
        }
    }

    /// Sends the turns; returns whether the session was completed. A turn after a failed turn is
    /// sent with the history that exists, so that the load stays as configured.
    async fn turns(&self, session: &Session<'_>, mut send: SendTimes) -> bool {
        let turns = session.conversation.turns.len();
        let mut answers: Vec<Option<Arc<str>>> = Vec::new();
        let mut last_end = send.issued;
        for turn in 0..turns {
            if turn > 0 {
                match self.later_turn(session, turn, last_end).await {
                    Some(later) => send = later,
                    None => return false,
                }
            }
            if !self.hold_back(session, &mut send).await {
                return false;
            }
            let Some(slot) = self.prefill_slot(session).await else { return false };
            if slot.free_from > Nanos::ZERO {
                (send.issued, send.free_from) = (slot.free_from, slot.free_from);
            }
            let mut record = self.request(session, turn, &answers, send, slot).await;
            last_end = record.end;
            let mut answer = None;
            if turn + 1 == turns {
                record.turn.is_final = true;
            } else {
                answer = self.answer(&record);
                record.turn.is_final = answer.is_none() && self.phase.ends_failed_sessions;
            }
            let is_final = record.turn.is_final;
            self.shared.queue.push(record);
            if is_final {
                return true;
            }
            answers.push(answer);
        }
        true
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

    /// Waits until a later turn is to be sent, and takes a request from the budget. Returns `None`
    /// if the turn will not be sent.
    async fn later_turn(
        &self,
        session: &Session<'_>,
        turn: usize,
        last_end: Nanos,
    ) -> Option<SendTimes> {
        let turn = &session.conversation.turns[turn];
        let after_delay = last_end + turn.delay;
        let due = match (self.phase.pace, session.user) {
            (Pace::Trace, _) => {
                Some(turn.timestamp.map_or(after_delay, |timestamp| self.phase.at(timestamp)))
            }
            (_, Some(user)) => Some(self.phase.at(user.next_due()?)),
            (_, None) => None,
        };
        let is_sending =
            self.phase.wait_until(due.unwrap_or(after_delay), &self.shared.timer).await;
        let due = match self.phase.pace {
            Pace::Rate if is_sending => Some(self.due_for_turn().await?),
            _ => due,
        };
        let send = SendTimes { due, issued: Clock::now(), free_from: after_delay };
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
        let payload = workload.body(session.index, turn, answers);
        let asked = session.conversation.turns.get(turn);
        let model = asked.map_or_else(|| Arc::from(""), |turn| Arc::clone(&turn.model));
        let (target, path) = workload.targets.of(session.server, &model);
        let request = OutgoingRequest {
            target: session.server,
            method: Method::POST,
            path,
            headers: workload.builder.headers(request_id, session.correlation_id),
            body: payload.clone(),
        };
        self.phase.counters.request_sent(Clock::now());
        let give_up = self.phase.gives_up_after(session.number, turn);
        let (sent, was_sent) = give_up.map(|_| oneshot::channel()).unzip();
        let watch = Watch { sent, event: self.first_content(prefill_slot) };
        let cancelled = self.cancelled(give_up, was_sent);
        let client = &self.shared.client;
        let mut cancelled = pin!(cancelled);
        let mut first =
            client.exchange(&request, &session.connection, watch, cancelled.as_mut()).await;
        self.phase.reach.observe(session.server, &first);
        let exchange = match steps::next(&*workload.endpoint, None, &mut first) {
            None => first,
            // Boxed, so that usual requests do not need the memory for it.
            Some(step) => {
                let base = target.map_or("", |target| &target.path_and_query);
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
            correlation_id: session.correlation_id,
            model,
            url: target.map_or_else(|| Arc::from(""), |target| Arc::clone(&target.url)),
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
        }
    }
}

impl PhaseWorker {
    /// Watches for the first event with content and then frees the slot. The end of the request
    /// frees it in any case.
    fn first_content(&self, slot: Slot) -> Option<EventWatch<'_>> {
        let endpoint = &self.shared.workload.endpoint;
        let mut permit = Some(slot.permit?);
        Some(Box::new(move |event| {
            let has_content = endpoint.has_content(event);
            if has_content {
                drop(permit.take());
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
    /// Returns the body of a request, which is built before the run if it never changes.
    pub(super) fn body(
        &self,
        conversation: usize,
        turn: usize,
        answers: &[Option<Arc<str>>],
    ) -> Bytes {
        if turn == 0
            && let Some(body) = self.first_bodies.get(conversation)
        {
            return body.clone();
        }
        self.dataset.conversations.get(conversation).map_or_else(Bytes::new, |found| {
            Bytes::from(self.endpoint.request_body(found, turn, answers))
        })
    }
}
