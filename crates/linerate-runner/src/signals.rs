//! What ends a test or a server: a [`Stop`] in the hands of whoever runs it. Only [`Stop::at_signals`]
//! listens for SIGINT and SIGTERM.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

tokio::task_local! {
    /// Ends the test of this task.
    static STOP: Stop;
    /// Whoever runs it ends it in order.
    static IN_ORDER: Cell<bool>;
}

/// Ends what runs under it early; clones are one. Nothing takes it back.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<u32>>);

/// Whoever interrupts this often does not wait for anything any more.
const IMPATIENT: u32 = 3;

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::channel(0).0))
    }
}

impl Stop {
    /// One that the first SIGINT or SIGTERM sets; a thread of its own listens from now on. The third one ends
    /// this process at once, whatever it waits for.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler.
    pub fn at_signals() -> std::io::Result<Self> {
        Self::at_signals_or(|| ())
    }

    /// The same; before the third one ends this process, `last` is called: whoever took over the terminal gives it
    /// back.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler.
    pub fn at_signals_or(last: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let stop = Self::default();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        std::thread::Builder::new().name("signals".into()).stack_size(256 * 1024).spawn(
            move || {
                runtime.block_on(async {
                    for count in 1..=IMPATIENT {
                        either(&mut interrupt, &mut terminate).await;
                        stopped.0.send_replace(count);
                    }
                });
                last();
                std::process::exit(linerate_model::exit::Exit::Interrupted as i32);
            },
        )?;
        Ok(stop)
    }

    /// Ends it.
    pub fn now(&self) {
        self.0.send_modify(|count| *count = (*count).max(1));
    }

    /// Whether it shall end.
    pub fn seen(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Resolves when it shall end.
    pub async fn asked(&self) {
        self.asked_times(1).await;
    }

    async fn asked_times(&self, least: u32) {
        // The sender is this very value, so the channel stays open.
        let _ = self.0.subscribe().wait_for(|count| *count >= least).await;
    }
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Runs a test that `stop` ends; `None` where it did before anybody said that it [`ends_in_order`].
pub(crate) async fn until<T>(stop: &Stop, test: impl Future<Output = T>) -> Option<T> {
    let early = async {
        first().await;
        if IN_ORDER.with(Cell::get) {
            std::future::pending::<()>().await;
        }
    };
    let both = async {
        tokio::select! {
            biased;
            done = pin!(test) => Some(done),
            () = early => None,
        }
    };
    STOP.scope(stop.clone(), IN_ORDER.scope(Cell::new(false), both)).await
}

/// From now on whoever runs the test of this task looks after its end.
pub(crate) fn ends_in_order() {
    let _ = IN_ORDER.try_with(|ends| ends.set(true));
}

/// Resolves when the test of this task shall end early.
pub(crate) async fn first() {
    times(1).await;
}

/// Resolves when the test of this task was interrupted so often.
pub(crate) async fn times(least: u32) {
    match STOP.try_with(Clone::clone) {
        Ok(stop) => stop.asked_times(least).await,
        Err(_) => std::future::pending().await,
    }
}
