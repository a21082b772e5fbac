//! What ends a test early: SIGINT, SIGTERM, or the word of whoever runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

tokio::task_local! {
    /// Becomes true when the test of this task shall end as by a signal.
    pub(crate) static STOP: watch::Receiver<bool>;
}

/// Resolves at the first of them.
pub(crate) async fn first() {
    let stop = STOP.try_with(Clone::clone).ok();
    let both = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = both else {
        return stopped(stop).await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = stopped(stop) => {}
    }
}

async fn stopped(stop: Option<watch::Receiver<bool>>) {
    if let Some(mut stop) = stop
        && stop.wait_for(|stop| *stop).await.is_ok()
    {
        return;
    }
    // Nobody can say so any more.
    std::future::pending().await
}

/// Remembers that SIGINT or SIGTERM came, for those who run one test after the other: between two
/// tests nobody else listens, and the program must not end without its result.
#[derive(Debug, Clone, Default)]
pub struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// Listens from now on, on a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler.
    pub fn watch() -> std::io::Result<Self> {
        let seen = Self::default();
        let teller = seen.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("signals".into()).stack_size(256 * 1024).spawn(
            move || {
                runtime.block_on(first());
                teller.0.store(true, Ordering::Relaxed);
            },
        )?;
        Ok(seen)
    }

    /// Whether one came.
    pub fn seen(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
