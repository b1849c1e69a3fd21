//! One binary of tests over real sockets and real files.
