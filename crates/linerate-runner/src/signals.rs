//! SIGINT and SIGTERM.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at the first of either.
pub(crate) async fn first() {
    let both = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = both else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
