//! A terminal that a view has to itself, and gives back whatever happens.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_model::exit::Exit;
use linerate_runner::signals::Stop;
use ratatui_core::buffer::Buffer;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::LOOK_UP;

/// Whoever asks this often for the end does not wait for anything any more.
const IMPATIENT: u32 = 3;

/// Where a view is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Stdout = 1,
    Stderr = 2,
}

impl On {
    fn writer(self) -> Box<dyn Write + Send> {
        match self {
            Self::Stdout => Box::new(io::stdout()),
            // As standard output is by itself: a screen in few calls.
            Self::Stderr => Box::new(io::BufWriter::with_capacity(1 << 16, io::stderr())),
        }
    }
}

/// Where the terminal is taken, as [`On`]; 0 is nowhere. There is one terminal, and whoever ends the process in a hurry
/// must find out.
static TAKEN: AtomicU8 = AtomicU8::new(0);

/// Gives the terminal back, if it is taken.
pub fn give_back() {
    let on = match TAKEN.swap(0, Ordering::SeqCst) {
        taken if taken == On::Stdout as u8 => On::Stdout,
        taken if taken == On::Stderr as u8 => On::Stderr,
        _ => return,
    };
    // This does not wait for a terminal that takes nothing.
    let _ = disable_raw_mode();
    let _ = execute!(on.writer(), LeaveAlternateScreen, Show);
}

/// The same for whoever ends the process at once: a terminal that takes nothing does not keep it.
pub fn give_back_at_once() {
    let (done, wait) = mpsc::channel();
    let back = thread::Builder::new().name("terminal".into()).spawn(move || {
        give_back();
        done.send(())
    });
    if back.is_ok() {
        let _ = wait.recv_timeout(HURRY);
    }
}

/// A terminal that works has taken its last words after far less.
const HURRY: Duration = Duration::from_millis(500);

/// What a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Quit,
    Pause,
    Help,
    Save,
    Mark,
    Next,
    Faster,
    Slower,
    /// A key that means nothing, or the size of the terminal: the screen is drawn anew.
    Other,
}

/// The terminal, until this is dropped.
///
/// Keys are read by a thread of their own: a terminal that takes nothing more holds up whoever draws, and whoever sits
/// there must still be able to end the program.
pub struct Tty {
    terminal: Terminal<CrosstermBackend<Box<dyn Write + Send>>>,
    keys: Receiver<io::Result<Key>>,
    _reader: Reader,
}

/// The thread that reads keys, until this is dropped.
struct Reader {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it said of itself stands on the terminal.
            let _ = thread.join();
        }
    }
}

impl Tty {
    /// Takes it: keys come one by one, and what stood there comes back at the end, also after a panic. The first key that
    /// asks for the end sets `stop`, the third ends this process at once.
    ///
    /// # Errors
    /// It is no terminal that can be taken, or the system gives no thread.
    pub fn take(on: On, stop: &Stop) -> io::Result<Self> {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            previous(info);
        }));
        TAKEN.store(on as u8, Ordering::SeqCst);
        let (over, stop) = (Arc::new(AtomicBool::new(false)), stop.clone());
        let (pressed, keys) = mpsc::channel();
        let seen = Arc::clone(&over);
        let read = move || read_keys(&seen, &pressed, &stop);
        // Keys are read before anything is written: the terminal may take nothing from the beginning.
        let reader = enable_raw_mode()
            .and_then(|()| thread::Builder::new().name("keys".into()).spawn(read))
            .inspect_err(|_| give_back())?;
        let reader = Reader { over, thread: Some(reader) };
        let terminal = execute!(on.writer(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(on.writer())))
            .inspect_err(|_| give_back())?;
        Ok(Self { terminal, keys, _reader: reader })
    }

    /// Draws a whole screen of the size that the terminal has now.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        // A thread that panicked gave the terminal back: nothing may be written over its words.
        if TAKEN.load(Ordering::SeqCst) == 0 {
            return Err(io::Error::other("a part of linerate failed, and the screen was given up"));
        }
        self.terminal.draw(|frame| draw(frame.buffer_mut())).map(drop)
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        self.terminal.size().map(|size| (size.width, size.height))
    }

    /// The next key, if one comes within this time.
    pub fn key(&self, wait: Duration) -> io::Result<Option<Key>> {
        match self.keys.recv_timeout(wait) {
            Ok(key) => key.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("the terminal's keys are no longer read"))
            }
        }
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // Keys are still read meanwhile: giving it back waits for a terminal that takes nothing.
        give_back();
    }
}

/// Reads keys until the terminal is given back or gives none any more.
fn read_keys(over: &AtomicBool, keys: &Sender<io::Result<Key>>, stop: &Stop) {
    let mut quits = 0;
    while !over.load(Ordering::Relaxed) {
        let key = match event::poll(LOOK_UP) {
            Ok(false) => continue,
            Ok(true) => event::read().map(|event| meant(&event)),
            Err(why) => Err(why),
        };
        if let Ok(Key::Quit) = key {
            quits += 1;
            stop.now();
            if quits >= IMPATIENT {
                give_back_at_once();
                std::process::exit(Exit::Interrupted as i32);
            }
        }
        let failed = key.is_err();
        if keys.send(key).is_err() || failed {
            return;
        }
    }
}

/// What a person means by it.
fn meant(event: &Event) -> Key {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => Key::Other,
        Event::Key(key) if key.modifiers.contains(KeyModifiers::CONTROL) => match key.code {
            KeyCode::Char('c' | 'd') => Key::Quit,
            _ => Key::Other,
        },
        Event::Key(key) => match key.code {
            KeyCode::Char('q' | 'Q') => Key::Quit,
            KeyCode::Char(' ' | 'p') => Key::Pause,
            KeyCode::Char('?' | 'h') => Key::Help,
            KeyCode::Char('s') => Key::Save,
            KeyCode::Char('m') => Key::Mark,
            KeyCode::Char('+' | '=') => Key::Faster,
            KeyCode::Char('-' | '_') => Key::Slower,
            KeyCode::Tab => Key::Next,
            _ => Key::Other,
        },
        _ => Key::Other,
    }
}
