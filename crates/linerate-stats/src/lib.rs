//! Arithmetic: statistics kept while datagrams arrive ([`online`]), each O(1) a datagram and without
//! allocation once made.
//!
//! Pure: no clock, no I/O; times come in as nanoseconds of a clock that the caller names.
#![forbid(unsafe_code)]

pub mod online;
