//! Asks the user during a command.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use manyway_terminal::note;

use super::progress::ProgressView;

/// The terminal of one run of the program, with the answers given at it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Desk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    view: Weak<ProgressView>,
    answers: BTreeMap<String, bool>,
    /// Messages held back while a live screen has the terminal.
    held: Option<Vec<String>>,
}

impl Desk {
    /// From now on this progress display makes room for questions.
    pub fn set_view(&self, view: &Arc<ProgressView>) {
        self.state().view = Arc::downgrade(view);
    }

    /// The earlier answer about `subject` in this run.
    pub fn answer(&self, subject: &str) -> Option<bool> {
        self.state().answers.get(subject).copied()
    }

    /// Whether a question would be seen and answered.
    pub fn can_ask(&self) -> bool {
        self.state().held.is_none() && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// A live screen takes the terminal: messages wait for [`Self::take_held`].
    pub fn hold(&self) {
        self.state().held.get_or_insert_default();
    }

    /// Takes the messages since the last call.
    pub fn take_held(&self) -> Vec<String> {
        self.state().held.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Releases the terminal.
    pub fn release(&self) {
        let held = self.state().held.take();
        held.into_iter().flatten().for_each(|text| self.tell(&text));
    }

    /// Prints a message.
    pub fn tell(&self, text: &str) {
        let mut state = self.state();
        if let Some(held) = &mut state.held {
            held.push(text.to_owned());
            return;
        }
        let view = state.view.upgrade();
        drop(state);
        match view {
            Some(view) => view.message(text),
            None => note(text),
        }
    }

    /// Asks about `subject` and stores the answer: whether it begins with y. Blocks until then; no answer means no.
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
    // Other messages must not wait for the answer.
    drop(err);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_during_a_live_screen_are_held_back() {
        let desk = Desk::default();
        desk.hold();
        assert!(!desk.can_ask());
        desk.tell("data wait");
        assert_eq!((desk.take_held(), desk.take_held()), (vec!["data wait".to_owned()], Vec::new()));
        desk.release();
        assert!(desk.take_held().is_empty());
    }
}
