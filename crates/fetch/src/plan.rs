//! One download from its beginning to its end.

use std::fs::File;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::Instant;

use crate::error::FetchError;
use crate::event::{Event, Observer};
use crate::figures::Figures;
use crate::finish::{Present, Sha256, finish};
use crate::http::{Connection, Dialler};
use crate::job::{Facts, Job};
use crate::locate::{Located, Way, WholeReason};
use crate::network::{Interface, Limit, Network};
use crate::part::{Places, Writer};
use crate::pieces;
use crate::ranges::Ranges;
use crate::record::{Record, plain_address};
use crate::schedule::Schedule;
use crate::target::WebAddress;
use crate::whole::Whole;

/// What is fetched, and where to.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The address of the file.
    pub address: WebAddress,
    /// Where it is stored.
    pub destination: Destination,
    /// What happens to a file that is there.
    pub present: Present,
    /// The SHA-256 sum that it must have.
    pub sum: Option<Sha256>,
    /// How long a connection may take, and then an answer.
    pub patience: Duration,
    /// A limit of the rate.
    pub limit: Option<Arc<dyn Limit>>,
    /// The settings of TLS, as of [`client_config`](crate::client_config).
    pub tls: Arc<ClientConfig>,
    /// Where the figures of the interfaces go.
    pub figures: Figures,
}

/// Where a file is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// In this directory, which is created if there is none, under the name that the server gives it.
    Directory(PathBuf),
    /// Under this name.
    File(PathBuf),
}

/// A file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub length: u64,
    /// Whether it has the sum that was asked for.
    pub is_verified: bool,
    /// Whether it was there before and nothing was fetched.
    pub is_kept: bool,
}

/// Fetches a file over all interfaces of the network. When `stop` is ready it ends, and what has arrived is recorded.
///
/// # Errors
/// [`FetchError::is_transient`] tells whether another call may succeed; it goes on where this one stopped, if that is
/// possible.
pub async fn fetch<N: Network>(
    plan: &Plan,
    network: &Arc<N>,
    observer: &Observer,
    stop: impl Future<Output = ()>,
) -> Result<Fetched, FetchError> {
    let dialler = Arc::new(Dialler {
        network: Arc::clone(network),
        tls: Arc::clone(&plan.tls),
        figures: plan.figures.clone(),
        patience: plan.patience,
    });
    let say = |text: &str| observer(Event::Said { text });
    tokio::pin!(stop);
    let located = tokio::select! {
        located = dialler.locate(&plan.address, &say) => located?,
        () = &mut stop => return Err(FetchError::Stopped { is_kept: true }),
    };
    let download = Download { plan, dialler: &dialler, observer };
    let path = match &plan.destination {
        Destination::Directory(directory) => directory.join(&located.name),
        Destination::File(path) => path.clone(),
    };
    if plan.present == Present::Keep && path.symlink_metadata().is_ok() {
        let length = path.metadata().map_or(0, |facts| facts.len());
        return Ok(Fetched { path, length, is_verified: false, is_kept: true });
    }
    let places = Places::of(&path);
    let announced = located.way.length();
    let file = download.all(located, &places, &mut stop).await?;
    let length = file.metadata().map_err(FetchError::local(&places.part))?.len();
    if announced.is_some_and(|announced| announced != length) {
        places.remove();
        let reason = format!("{length} bytes were written of a file of {}", announced.unwrap_or_default());
        return Err(FetchError::Broken { reason, is_kept: false });
    }
    finish(places, file, plan.sum, plan.present).await?;
    Ok(Fetched { path, length, is_verified: plan.sum.is_some(), is_kept: false })
}

/// A download whose file was found.
struct Download<'a, N> {
    plan: &'a Plan,
    dialler: &'a Arc<Dialler<N>>,
    observer: &'a Observer,
}

impl<N: Network> Download<'_, N> {
    /// Fetches all of it into its unfinished file.
    async fn all(
        &self,
        located: Located,
        places: &Places,
        mut stop: impl Future<Output = ()> + Unpin,
    ) -> Result<File, FetchError> {
        let file = places.open()?;
        let Located { address, remotes, name, way, interface, connection } = located;
        let found = |length| (self.observer)(Event::Found { name: &name, length });
        let whole = |connection, response| Whole {
            dialler: &**self.dialler,
            address: &address,
            interface: &interface,
            connection,
            response,
            limit: self.plan.limit.as_deref(),
            observer: &**self.observer,
        };
        match way {
            Way::Whole { reason, length, response } => {
                found(length);
                self.say(reason.words());
                over_one(whole(Some(connection), response), places, file, stop).await
            }
            Way::Pieces { tag, length } => {
                found(Some(length));
                let facts = Facts { address: address.clone(), remotes, tag, length };
                let first = (interface.clone(), connection);
                match self.in_pieces(facts, first, (places, file), &mut stop).await {
                    // The server promised parts and does not keep to them.
                    Err(FetchError::Protocol { reason }) => {
                        self.say(&reason);
                        self.say(WholeReason::NoRanges.words());
                        found(Some(length));
                        over_one(whole(None, None), places, places.open()?, stop).await
                    }
                    // A redirect may lead to an address that expires; the next attempt begins where it led from.
                    Err(FetchError::Status { code, reason, .. }) if address != self.plan.address => {
                        let reason = format!("the server answered {code} {reason} to {address}");
                        Err(FetchError::Broken { reason, is_kept: true })
                    }
                    result => result,
                }
            }
        }
    }

    async fn in_pieces(
        &self,
        facts: Facts,
        first: (Interface, Connection),
        (places, file): (&Places, File),
        stop: impl Future<Output = ()>,
    ) -> Result<File, FetchError> {
        let (file, record) = self.resume(places, file, &facts)?;
        let schedule = Schedule::new(record.have.missing(facts.length), Instant::now());
        let limit = self.plan.limit.clone();
        let job = Job::new(Arc::clone(self.dialler), facts, schedule, Arc::clone(self.observer), limit);
        pieces::run(&Arc::new(job), first, Writer::start(places, file, Some(record)), stop).await
    }

    /// What an earlier run left of the same version, or an empty file.
    fn resume(&self, places: &Places, file: File, facts: &Facts) -> Result<(File, Record), FetchError> {
        let address = plain_address(self.plan.address.url());
        let fresh = Record { address, tag: facts.tag.clone(), length: facts.length, have: Ranges::default() };
        match places.read_record(&file) {
            Some(old)
                if (&old.address, &old.tag, old.length) == (&fresh.address, &fresh.tag, fresh.length) =>
            {
                (self.observer)(Event::Resumed { bytes: old.have.count() });
                Ok((file, old))
            }
            old => {
                if old.is_some_and(|old| old.address == fresh.address && !old.have.is_empty()) {
                    self.say("the file changed on the server since the last run: starting again");
                }
                empty(places, &file)?;
                Ok((file, fresh))
            }
        }
    }

    fn say(&self, text: &str) {
        (self.observer)(Event::Said { text });
    }
}

/// Fetches over one connection; nothing of it is of use to a later run.
async fn over_one<N: Network>(
    whole: Whole<'_, N>,
    places: &Places,
    file: File,
    stop: impl Future<Output = ()>,
) -> Result<File, FetchError> {
    empty(places, &file)?;
    let result = whole.run(Writer::start(places, file, None), stop).await;
    if result.is_err() {
        places.remove();
    }
    result
}

/// The record first: it must not name bytes that are gone.
fn empty(places: &Places, file: &File) -> Result<(), FetchError> {
    places.remove_record();
    file.set_len(0).map_err(FetchError::local(&places.part))
}
