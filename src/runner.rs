//! Drives the schedule through the transport: workers, sessions, cancellation.
