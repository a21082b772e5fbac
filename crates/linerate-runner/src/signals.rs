//! What ends a test early: a [`Stop`] in the hands of whoever runs it. Only a server and
//! [`Stop::at_signals`] listen for SIGINT and SIGTERM.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

tokio::task_local! {
    /// Ends the test of this task.
    pub(crate) static STOP: Stop;
}

/// Ends what runs under it early; clones are one. Nothing takes it back.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }
}

impl Stop {
    /// One that the first SIGINT or SIGTERM sets; a thread of its own listens from now on.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler.
    pub fn at_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let told = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (interrupt, terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        std::thread::Builder::new().name("signals".into()).stack_size(256 * 1024).spawn(
            move || {
                runtime.block_on(either(interrupt, terminate));
                told.now();
            },
        )?;
        Ok(stop)
    }

    /// Ends it.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// Whether it shall end.
    pub fn seen(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when it shall end.
    pub(crate) async fn asked(&self) {
        // The sender is this very value, so the channel stays open.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

async fn either(
    mut interrupt: tokio::signal::unix::Signal,
    mut terminate: tokio::signal::unix::Signal,
) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Resolves when the test of this task shall end early.
pub(crate) async fn first() {
    match STOP.try_with(Clone::clone) {
        Ok(stop) => stop.asked().await,
        Err(_) => std::future::pending().await,
    }
}

/// Resolves at the first SIGINT or SIGTERM; never where the system lets nobody listen.
pub(crate) async fn signalled() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(interrupt), Ok(terminate)) => either(interrupt, terminate).await,
        _ => std::future::pending().await,
    }
}
