//! The threads of an endpoint: one driver each.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Driver;
use super::group::{Group, Loads};
use super::start::{Listening, Start, fill_with_random};
use crate::advice::AdviceBoard;
use crate::error::BindFailure;
use crate::key_log::KeyLog;
use crate::link::{Command, Link};
use crate::options::EndpointOptions;
use crate::udp::share;

/// The threads of one endpoint.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The ways to the drivers.
    commands: Vec<mpsc::UnboundedSender<Command>>,
    handles: Mutex<Vec<std::thread::JoinHandle<()>>>,
    listening: Listening,
    loads: Arc<Loads>,
}

impl Threads {
    /// Starts the threads: as many as a server is to have, otherwise one.
    pub(crate) fn start(
        mut options: EndpointOptions,
        key_log: &KeyLog,
        incoming: &mpsc::Sender<Arc<Link>>,
        advice: &AdviceBoard,
    ) -> Result<Self, BindFailure> {
        let count = count(&options);
        if count > 1 && options.reset_key.is_none() {
            let mut key = [0; 32];
            fill_with_random(&mut key)?;
            options.reset_key = Some(key);
        }
        let groups = Group::of(count);
        let loads = groups.first().map(Group::loads).unwrap_or_default();
        let (commands, handles) = (Vec::new(), Mutex::default());
        let mut threads = Self { commands, handles, listening: Listening::default(), loads };
        for group in groups {
            let (commands, command_receiver) = mpsc::unbounded_channel();
            let first = (!threads.commands.is_empty()).then(|| threads.listening.clone());
            let is_first = first.is_none();
            let spawned = spawn(Start {
                options: options.clone(),
                key_log: key_log.clone(),
                commands: commands.downgrade(),
                command_receiver,
                incoming: incoming.clone(),
                advice: advice.clone(),
                group,
                first,
            });
            let (listening, handle) = match spawned {
                Ok(spawned) => spawned,
                Err(error) => {
                    threads.end();
                    return Err(error);
                }
            };
            if is_first {
                threads.listening = listening;
            }
            threads.commands.push(commands);
            threads.handles.get_mut().unwrap_or_else(PoisonError::into_inner).push(handle);
        }
        Ok(threads)
    }

    /// Ends the threads that were started, so that their ports are free.
    fn end(mut self) {
        self.commands.clear();
        for handle in self.handles.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let _ = handle.join();
        }
    }

    /// Where the server listens.
    pub(crate) fn listening(&self) -> &Listening {
        &self.listening
    }

    /// How many connections each of them has.
    pub(crate) fn loads(&self) -> Vec<usize> {
        self.loads.all()
    }

    /// A way to the first driver that does not keep it alive.
    pub(crate) fn first(&self) -> Option<mpsc::WeakUnboundedSender<Command>> {
        self.commands.first().map(mpsc::UnboundedSender::downgrade)
    }

    /// Sends a command about a new connection of this end; false if the endpoint is closed.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.commands.first().is_some_and(|first| first.send(command).is_ok())
    }

    /// Closes all connections, and waits until all threads have ended.
    pub(crate) async fn close(&self, code: u64, reason: &str, until: Instant) {
        let mut answers = Vec::new();
        for commands in &self.commands {
            let (reply, answer) = oneshot::channel();
            if commands.send(Command::Shutdown { code, reason: reason.to_owned(), until, reply }).is_ok() {
                answers.push(answer);
            }
        }
        for answer in answers {
            let _ = answer.await;
        }
        let handles = std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in handles {
            // The driver has replied, so the thread ends at once.
            let _ = tokio::task::spawn_blocking(move || handle.join()).await;
        }
    }
}

/// How many threads an endpoint gets.
fn count(options: &EndpointOptions) -> usize {
    let wanted = options.server.as_ref().map_or(1, |server| server.threads);
    if wanted <= 1 || options.mmsp1.is_some() {
        // Packets of MMSP/1 have no connection IDs to divide them by.
        return 1;
    }
    match share::check() {
        Ok(()) => wanted,
        Err(error) => {
            tracing::info!(%error, "the system cannot divide a port among threads: one thread serves all clients");
            1
        }
    }
}

/// Starts a thread; returns its listening addresses.
fn spawn(start: Start) -> Result<(Listening, std::thread::JoinHandle<()>), BindFailure> {
    let (ready, answer) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("manyway-driver".into())
        .spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = ready.send(Err(BindFailure::System(error)));
                    return;
                }
            };
            runtime.block_on(async {
                match Driver::new(start) {
                    Ok(mut driver) => {
                        let _ = ready.send(Ok(driver.listening()));
                        driver.run().await;
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            });
            // A name look-up may take half a minute, and its result is not needed any more.
            runtime.shutdown_background();
        })
        .map_err(BindFailure::System)?;
    match answer.recv() {
        Ok(Ok(listening)) => Ok((listening, thread)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(BindFailure::System(io::Error::other("the driver thread ended at its start"))),
    }
}
