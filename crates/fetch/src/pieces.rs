//! A file in pieces: one task for each interface, and one that watches them.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::error::{Fault, FetchError};
use crate::http::Connection;
use crate::job::{Job, Outlook};
use crate::locate::by_interface;
use crate::network::{Interface, Network};
use crate::part::{Block, Writer};
use crate::worker;

/// A download that delivers nothing for so long is given up.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(30);
/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Fetches all pieces and writes them.
pub(crate) async fn run<N: Network, T: Send + 'static>(
    job: &Arc<Job<N>>,
    first: (Interface, Connection),
    (blocks, writer): (mpsc::Sender<Block>, Writer<T>),
    stop: impl Future<Output = ()>,
) -> Result<T, FetchError> {
    let mut crew = Crew { job: Arc::clone(job), blocks, tasks: BTreeMap::new() };
    let result = crew.work(first, &writer, stop).await;
    drop(crew);
    // What has arrived is written in any case; that it cannot be says more than anything else.
    let written = writer.end().await?;
    result.map(|()| written)
}

/// The tasks of the interfaces.
struct Crew<N: Network> {
    job: Arc<Job<N>>,
    blocks: mpsc::Sender<Block>,
    tasks: BTreeMap<String, (Interface, AbortHandle)>,
}

impl<N: Network> Crew<N> {
    async fn work<T: Send + 'static>(
        &mut self,
        (interface, connection): (Interface, Connection),
        writer: &Writer<T>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), FetchError> {
        let job = Arc::clone(&self.job);
        self.start(interface, Some(connection));
        self.adapt();
        tokio::pin!(stop);
        loop {
            let changed = job.changed.notified();
            let outlook = job.outlook();
            if outlook.is_complete {
                return Ok(());
            }
            if self.blocks.capacity() == 0 {
                // Whoever reads the output takes a break, or the disk does.
                job.wait_for_output();
            } else if let Some(error) = self.verdict(&outlook) {
                return Err(error);
            }
            if writer.has_ended() {
                // Its error follows.
                return Err(FetchError::Stopped { is_kept: true });
            }
            tokio::select! {
                () = &mut stop => return Err(FetchError::Stopped { is_kept: true }),
                () = job.dialler.network.changed() => self.adapt(),
                () = changed => {}
                () = sleep(LOOK) => {}
            }
        }
    }

    /// Starts the tasks of new interfaces and ends those of lost ones.
    fn adapt(&mut self) {
        let interfaces = self.job.dialler.network.interfaces(&self.job.remotes);
        let is_there = |interface: &Interface| interfaces.contains(interface);
        let gone: Vec<_> =
            self.tasks.iter().filter(|(_, (own, _))| !is_there(own)).map(|(name, _)| name.clone()).collect();
        for name in gone {
            if let Some((_, task)) = self.tasks.remove(&name) {
                task.abort();
            }
            self.job.forget(&name);
        }
        for interface in interfaces {
            if !self.tasks.contains_key(&interface.name) {
                self.start(interface, None);
            }
        }
    }

    fn start(&mut self, interface: Interface, connection: Option<Connection>) {
        let (job, blocks) = (Arc::clone(&self.job), self.blocks.clone());
        let name = interface.name.clone();
        let task = tokio::spawn(worker::run(job, interface.clone(), connection, blocks)).abort_handle();
        self.tasks.insert(name, (interface, task));
    }

    /// Why it makes no sense to go on; `None` as long as it does.
    fn verdict(&self, outlook: &Outlook) -> Option<FetchError> {
        let Outlook { faults, .. } = outlook;
        let all_failed = !self.tasks.is_empty() && self.tasks.keys().all(|name| faults.contains_key(name));
        if all_failed && !outlook.is_busy {
            let find = |wanted: fn(&Fault) -> bool| faults.values().find(|fault| wanted(fault)).cloned();
            let worst = find(|fault| *fault == Fault::Changed)
                .or_else(|| find(|fault| matches!(fault, Fault::Status { .. })))
                .or_else(|| find(|fault| !fault.is_of_network()));
            if let Some(fault) = worst {
                return Some(crate::locate::of_fault(&self.job.address, fault));
            }
        }
        if Instant::now().saturating_duration_since(outlook.delivered_at) < GIVE_UP {
            return None;
        }
        let why = by_interface(faults.iter().map(|(name, fault)| (name.as_str(), fault)));
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        let reason = format!("nothing came over any interface for {} s{why}", GIVE_UP.as_secs());
        Some(FetchError::Broken { reason, is_kept: true })
    }
}

impl<N: Network> Drop for Crew<N> {
    fn drop(&mut self) {
        for (_, task) in self.tasks.values() {
            task.abort();
        }
    }
}
