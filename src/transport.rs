//! Bytes with timestamps: DNS, connect, TLS, write, first byte, every read.
