//! What `--web` shows in a browser: the events of a test or a server as a stream of bytes, and the page that draws these.
//! Requests are read, and answers made, in `linerate-wire`; who accepts connections is not here.

pub mod events;
pub mod fleet;
pub mod page;
