//! Other programs' work: threads that only take time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads of this process that keep cores busy until dropped.
pub struct Hogs(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Hogs {
    /// So many, all on one core.
    pub fn on_core(core: usize, threads: usize) -> Self {
        Self::start(threads, Some(core))
    }

    /// As many as there are cores, two at least, wherever the scheduler puts them.
    pub fn everywhere() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::start(cores.max(2), None)
    }

    fn start(threads: usize, core: Option<usize>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let hogs = (0..threads)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    if let Some(core) = core {
                        let mut set = nix::sched::CpuSet::new();
                        set.set(core).unwrap();
                        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
                    }
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self(stop, hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for hog in self.1.drain(..) {
            let _ = hog.join();
        }
    }
}
