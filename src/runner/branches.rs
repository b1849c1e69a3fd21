//! Conversations that a conversation starts.

use std::pin::Pin;
use std::rc::Rc;

use tokio::task::JoinHandle;

use super::session::{Session, SoFar};
use super::worker::PhaseWorker;
use crate::dataset::{Branch, BranchStart};
use crate::record::Ancestry;
use crate::units::Nanos;

/// The place and the history with which a started conversation begins.
pub(super) struct Origin {
    /// Index of the conversation in the dataset.
    pub(super) conversation: usize,
    pub(super) began: SoFar,
    pub(super) ancestry: Ancestry,
    /// The tenant of the session, if tenants share the load.
    pub(super) tenant: Option<usize>,
}

/// The conversations that one has started.
#[derive(Default)]
pub(super) struct Children {
    running: Vec<Child>,
}

struct Child {
    /// The turn that waits for its end.
    join: Option<usize>,
    task: JoinHandle<Nanos>,
}

impl Children {
    /// Starts the branches of `parent` that begin before its first turn, or with what has just happened
    /// of the turn `after`. `so_far` is how far the parent has come, and `at` when that was.
    pub(super) fn start(
        &mut self,
        worker: &Rc<PhaseWorker>,
        parent: &Session<'_>,
        (after, from): (Option<usize>, BranchStart),
        so_far: &SoFar,
        at: Nanos,
    ) {
        let branches = parent.conversation.branches.iter();
        for branch in branches.filter(|branch| branch.after == after && branch.from == from) {
            let began = began(branch, so_far, at);
            let ancestry = parent.as_parent();
            let (conversation, tenant) = (branch.conversation, parent.tenant);
            let origin = Origin { conversation, began, ancestry, tenant };
            // Boxed, since a child may have children.
            let child: Pin<Box<dyn Future<Output = Nanos>>> =
                Box::pin(Rc::clone(worker).child(parent.number, origin));
            let task = tokio::task::spawn_local(child);
            self.running.push(Child { join: branch.join, task });
        }
    }

    /// Returns whether a conversation that `turn` waits for has not ended.
    pub(super) fn delay(&self, turn: usize) -> bool {
        self.running.iter().any(|child| child.join == Some(turn) && !child.task.is_finished())
    }

    /// Waits for the conversations that `turn` waits for, or for all of them, and returns when the
    /// last one ended; zero if there are none.
    pub(super) async fn wait(&mut self, turn: Option<usize>) -> Nanos {
        let mut last_end = Nanos::ZERO;
        let is_due = |child: &Child| turn.is_none() || child.join == turn;
        while let Some(at) = self.running.iter().position(is_due) {
            match self.running.swap_remove(at).task.await {
                Ok(end) => last_end = last_end.max(end),
                Err(error) => {
                    // The worker ends, as with a panic of the parent.
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        last_end
    }
}

/// A fork continues with the responses so far, a spawn begins anew. Its delay begins `at` this time.
fn began(branch: &Branch, so_far: &SoFar, at: Nanos) -> SoFar {
    if branch.is_fork {
        SoFar { turn: so_far.answers.len(), last_end: at, ..so_far.clone() }
    } else {
        SoFar { turn: 0, answers: Vec::new(), last_end: at, marker: None }
    }
}
