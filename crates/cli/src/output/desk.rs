//! Where the user is asked while something is going on.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::progress::ProgressView;
use super::words::note;

/// The terminal of one run of the program, with the answers that were given at it. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Desk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    view: Weak<ProgressView>,
    answers: BTreeMap<String, bool>,
}

impl Desk {
    /// Lets this progress make room for questions from now on.
    pub fn set_view(&self, view: &Arc<ProgressView>) {
        self.state().view = Arc::downgrade(view);
    }

    /// What was answered about `subject` before in this run.
    pub fn answer(&self, subject: &str) -> Option<bool> {
        self.state().answers.get(subject).copied()
    }

    /// Whether somebody sits there.
    pub fn is_manned() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Says something.
    pub fn tell(&self, text: &str) {
        let view = self.state().view.upgrade();
        match view {
            Some(view) => view.message(text),
            None => note(text),
        }
    }

    /// Asks about `subject` and keeps the answer: whether it begins with y. It blocks until then; no answer is no.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn ask(&self, subject: &str, question: &str) -> io::Result<bool> {
        let view = self.state().view.upgrade();
        if let Some(view) = &view {
            view.pause();
        }
        let answer = put(question);
        if let Some(view) = &view {
            view.resume();
        }
        let yes = answer?.trim_start().to_ascii_lowercase().starts_with('y');
        self.state().answers.insert(subject.to_owned(), yes);
        Ok(yes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(question: &str) -> io::Result<String> {
    let mut err = io::stderr().lock();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    // Whoever else has something to say must not wait for the answer.
    drop(err);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}
