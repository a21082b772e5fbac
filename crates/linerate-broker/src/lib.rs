//! A fleet by way of NATS JetStream: who holds which hosts and links, the orders to agents, and their results on the
//! way to the store. Only this crate knows NATS.
//!
//! An order to a host goes by core request and reply, to a subscription of each agent; JetStream carries what has
//! to outlast a process: leases, results, what the store has confirmed, and the last heartbeat of each agent. No agent
//! has a consumer of its own, since a server holds few of them (1,000 a stream from 2.15 on).
//!
//! JetStream is asked in its own messages (`$JS.API.…`): the client has no words for atomic batches.
//!
//! ```
//! use linerate_broker::config::Server;
//!
//! let server = Server {
//!     listen: "192.0.2.1:4222".parse().expect("an address"),
//!     store: "/var/lib/nats".into(),
//!     accounts: "/var/lib/nats/accounts".into(),
//!     tls: None,
//! };
//! // What `linerate_broker::keys::found` says of who is let in comes last.
//! let text = server.config("operator: …");
//! assert!(text.starts_with("listen: \"192.0.2.1:4222\"") && text.ends_with("operator: …"));
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod api;
pub mod config;
mod connect;
mod enrol;
mod enrolled;
mod error;
mod events;
mod health;
mod jwt;
pub mod keys;
pub mod lease;
mod orders;
mod results;
mod revoke;
mod streams;
mod subject;
mod walk;

pub use connect::{Broker, Credentials, LEAST_VERSION};
pub use enrol::{Guest, Invitation, enrol};
pub use enrolled::Enrolled;
pub use orders::{Asker, Leased, Orders, Seen};
pub use results::{Arrived, Confirmations, Ingest};
pub use subject::{is_name, run_of};
