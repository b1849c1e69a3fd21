//! The end of a measurement of which enough is known.

use tokio::sync::watch;

/// Ends the measurement of a run before its configured end, as if its duration were over. All clones
/// end the same one.
#[derive(Debug, Clone, Default)]
pub struct Enough(watch::Sender<bool>);

impl Enough {
    /// Ends it: no more requests are sent, and those in flight may finish within the grace period.
    pub fn end(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is to end.
    pub(super) async fn wait(&self) {
        // `self` owns a sender, so the channel cannot close during the wait.
        let _ = self.0.subscribe().wait_for(|is_enough| *is_enough).await;
    }
}
