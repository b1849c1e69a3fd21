//! Every module's configuration composed and validated once.
