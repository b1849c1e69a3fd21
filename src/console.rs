//! Tables, progress and warnings with advice.
