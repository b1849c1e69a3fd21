//! A session: the turns of one conversation, one after the other.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::phase::Stop;
use super::worker::PhaseWorker;
use crate::dataset::Conversation;
use crate::record::{ErrorKind, RequestRecord, TurnId};
use crate::transport::{OutgoingRequest, SessionConnection};
use crate::units::{Clock, Nanos};

/// What a session's requests have in common.
struct Session<'a> {
    number: u64,
    index: usize,
    conversation: &'a Conversation,
    target: usize,
    correlation_id: Uuid,
    connection: SessionConnection,
}

impl PhaseWorker {
    /// Runs the turns of session `number`, the first of which is due at `due`.
    pub(super) async fn session(&self, number: u64, due: Option<Nanos>, issued: Nanos) {
        let workload = &self.shared.workload;
        let index = workload.sampler.conversation(number);
        let Some(conversation) = workload.dataset.conversations.get(index) else { return };
        let session = Session {
            number,
            index,
            conversation,
            target: (number % workload.targets.len().max(1) as u64) as usize,
            correlation_id: self.shared.new_id(),
            connection: SessionConnection::default(),
        };
        let is_complete = self.turns(&session, due, issued).await;
        self.phase.counters.session_ended(is_complete);
    }

    /// Whether all turns were answered.
    async fn turns(
        &self,
        session: &Session<'_>,
        mut due: Option<Nanos>,
        mut issued: Nanos,
    ) -> bool {
        let turns = session.conversation.turns.len();
        let mut answers: Vec<Arc<str>> = Vec::new();
        for turn in 0..turns {
            if turn > 0 {
                match self.later_turn(session.conversation.turns[turn].delay).await {
                    Some(turn_due) => due = turn_due,
                    None => return false,
                }
                issued = Clock::now();
            }
            let record = self.request(session, turn, &answers, due, issued).await;
            let answer = if record.has_failed() {
                None
            } else if turn + 1 == turns {
                Some(Arc::from(""))
            } else {
                self.answer(&record)
            };
            self.shared.queue.push(record);
            match answer {
                Some(answer) => answers.push(answer),
                // The conversation cannot go on without the server's answer.
                None => return false,
            }
        }
        true
    }

    /// Waits for a later turn: its delay, a request of the budget, and in an
    /// open loop its due time. `None` when the turn will not be sent.
    async fn later_turn(&self, delay: Nanos) -> Option<Option<Nanos>> {
        if delay > Nanos::ZERO {
            tokio::select! {
                () = tokio::time::sleep(delay.into()) => {}
                () = self.phase.stopped(Stop::Sending) => return None,
            }
        }
        let due = if self.phase.is_open_loop() { Some(self.due_for_turn().await?) } else { None };
        self.phase.next_turn().then_some(due)
    }

    /// The text that later turns repeat: read here, since the next turn needs
    /// it before any processor may have come to the record.
    fn answer(&self, record: &RequestRecord) -> Option<Arc<str>> {
        let response = self.shared.workload.endpoint.parse(&record.body);
        response.error.is_none().then(|| response.output_text.into())
    }

    async fn request(
        &self,
        session: &Session<'_>,
        turn: usize,
        answers: &[Arc<str>],
        due: Option<Nanos>,
        issued: Nanos,
    ) -> RequestRecord {
        let workload = &self.shared.workload;
        let due_while_asleep = due.is_some_and(|due| self.shared.sleep.covers(due));
        let request_id = self.shared.new_id();
        let payload = workload.body(session.index, turn, answers);
        let request = OutgoingRequest {
            target: session.target,
            headers: workload.builder.headers(request_id, session.correlation_id),
            body: payload.clone(),
        };
        self.phase.counters.request_sent(Clock::now());
        let stopped = self.phase.stopped(Stop::Now);
        let exchange = self.shared.client.exchange(&request, &session.connection, stopped).await;
        let is_cancelled =
            exchange.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Cancelled);
        self.phase.counters.request_returned(exchange.end, is_cancelled);
        let turn_id = TurnId {
            session: session.number,
            conversation: session.index,
            turn,
            is_final: turn + 1 == session.conversation.turns.len(),
        };
        let url = workload.targets.get(session.target).map(|target| Arc::clone(&target.url));
        RequestRecord {
            turn: turn_id,
            phase: self.phase.kind,
            phase_index: self.phase.index,
            worker: self.shared.id,
            request_id,
            correlation_id: session.correlation_id,
            url: url.unwrap_or_else(|| Arc::from("")),
            payload,
            earlier_answers: answers.to_vec(),
            due,
            due_while_asleep,
            issued,
            start: exchange.start,
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

impl super::Workload {
    /// The body of a request: made before the run where it is the same each time.
    pub(super) fn body(&self, conversation: usize, turn: usize, answers: &[Arc<str>]) -> Bytes {
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
