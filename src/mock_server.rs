//! An OpenAI-compatible server with scripted timing: ground truth for demo and tests.
