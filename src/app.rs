//! Composition root: builds the parts, runs them, writes the results, sets the exit code.
