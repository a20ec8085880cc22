//! One download from its beginning to its end.

use std::fs::File;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::time::Instant;

use crate::error::FetchError;
use crate::event::{Event, Observer};
use crate::figures::Figures;
use crate::finish::{Present, finish};
use crate::http::{Connection, Dialler};
use crate::job::{Facts, Job};
use crate::locate::{Located, Way, WholeReason};
use crate::network::{Interface, Limit, Network};
use crate::outlet::{self, Outlet, WINDOW};
use crate::part::{self, Places};
use crate::pieces;
use crate::ranges::Ranges;
use crate::record::{Record, plain_address};
use crate::schedule::Schedule;
use crate::sum::Sha256;
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
#[derive(Debug, Clone)]
pub enum Destination {
    /// In this directory, which is created if there is none, under the name that the server gives it.
    Directory(PathBuf),
    /// Under this name.
    File(PathBuf),
    /// In order, to a pipe or the like.
    Output(Outlet),
}

/// A file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its path, or its name if it went to an output.
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
    match &plan.destination {
        Destination::Directory(directory) => {
            let path = directory.join(&located.name);
            download.to_file(located, path, &mut stop).await
        }
        Destination::File(path) => download.to_file(located, path.clone(), &mut stop).await,
        Destination::Output(outlet) => download.to_output(located, outlet, &mut stop).await,
    }
}

/// A download whose file was found.
struct Download<'a, N> {
    plan: &'a Plan,
    dialler: &'a Arc<Dialler<N>>,
    observer: &'a Observer,
}

impl<N: Network> Download<'_, N> {
    async fn to_file(
        &self,
        located: Located,
        path: PathBuf,
        stop: impl Future<Output = ()> + Unpin,
    ) -> Result<Fetched, FetchError> {
        let plan = self.plan;
        if plan.present == Present::Keep && path.symlink_metadata().is_ok() {
            let length = path.metadata().map_or(0, |facts| facts.len());
            return Ok(Fetched { path, length, is_verified: false, is_kept: true });
        }
        let places = Places::of(&path);
        let announced = located.way.length();
        let file = self.all(located, &places, stop).await?;
        let length = file.metadata().map_err(FetchError::local(&places.part))?.len();
        if announced.is_some_and(|announced| announced != length) {
            places.remove();
            return Err(other_length(length));
        }
        finish(places, file, plan.sum, plan.present).await?;
        Ok(Fetched { path, length, is_verified: plan.sum.is_some(), is_kept: false })
    }

    /// Fetches all of it into an output in order. Nothing of it can be fetched again.
    async fn to_output(
        &self,
        located: Located,
        outlet: &Outlet,
        stop: impl Future<Output = ()>,
    ) -> Result<Fetched, FetchError> {
        let announced = located.way.length();
        let Located { address, remotes, name, way, interface, connection } = located;
        (self.observer)(Event::Found { name: &name, length: announced });
        let writing = outlet::start(outlet);
        let result = match way {
            Way::Whole { reason, response, .. } => {
                self.say(reason.words());
                self.whole(&address, &interface, (Some(connection), response)).run(writing, stop).await
            }
            Way::Pieces { tag, length } => {
                let schedule =
                    Schedule::new(Ranges::default().missing(length), Instant::now()).within(WINDOW);
                let facts = Facts { address, remotes, tag, length };
                pieces::run(&self.job(facts, schedule), (interface, connection), writing, stop).await
            }
        };
        let written = result.map_err(without_resuming)?;
        if announced.is_some_and(|announced| announced != written.length) {
            return Err(other_length(written.length));
        }
        match self.plan.sum.filter(|wanted| *wanted != written.sum) {
            Some(_) => Err(FetchError::Sum { found: written.sum, is_removed: false }),
            None => Ok(Fetched {
                path: PathBuf::from(name),
                length: written.length,
                is_verified: self.plan.sum.is_some(),
                is_kept: false,
            }),
        }
    }

    fn job(&self, facts: Facts, schedule: Schedule) -> Arc<Job<N>> {
        let limit = self.plan.limit.clone();
        Arc::new(Job::new(Arc::clone(self.dialler), facts, schedule, Arc::clone(self.observer), limit))
    }

    fn whole<'a>(
        &'a self,
        address: &'a WebAddress,
        interface: &'a Interface,
        (connection, response): (Option<Connection>, Option<Response<Incoming>>),
    ) -> Whole<'a, N> {
        Whole {
            dialler: &**self.dialler,
            address,
            interface,
            connection,
            response,
            limit: self.plan.limit.as_deref(),
            observer: &**self.observer,
        }
    }

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
        match way {
            Way::Whole { reason, length, response } => {
                found(length);
                self.say(reason.words());
                let whole = self.whole(&address, &interface, (Some(connection), response));
                over_one(whole, places, file, stop).await
            }
            Way::Pieces { tag, length } => {
                found(Some(length));
                let facts = Facts { address: address.clone(), remotes, tag, length };
                let first = (interface.clone(), connection);
                match self.in_pieces(facts, first, (places, file), &mut stop).await {
                    Err(FetchError::Protocol { reason }) => {
                        let file = places.open()?;
                        if places.read_record(&file).is_some_and(|record| !record.have.is_empty()) {
                            // It did send parts: what it sends now may be another server's, and what is there is worth
                            // more.
                            return Err(FetchError::Broken { reason, is_kept: true });
                        }
                        self.say(&reason);
                        self.say(WholeReason::NoRanges.words());
                        found(Some(length));
                        let whole = self.whole(&address, &interface, (None, None));
                        over_one(whole, places, file, stop).await
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
        let writing = part::start(places, file, Some(record));
        pieces::run(&self.job(facts, schedule), first, writing, stop).await
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
    let result = whole.run(part::start(places, file, None), stop).await;
    if result.is_err() {
        places.remove();
    }
    result
}

fn other_length(length: u64) -> FetchError {
    let reason = format!("{length} bytes arrived, and the server announced another number");
    FetchError::Broken { reason, is_kept: false }
}

/// What was written to a pipe is gone.
fn without_resuming(error: FetchError) -> FetchError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others keep nothing anyway")]
    match error {
        FetchError::Broken { reason, .. } => FetchError::Broken { reason, is_kept: false },
        FetchError::Stopped { .. } => FetchError::Stopped { is_kept: false },
        other => other,
    }
}

/// The record first: it must not name bytes that are gone.
fn empty(places: &Places, file: &File) -> Result<(), FetchError> {
    places.remove_record();
    file.set_len(0).map_err(FetchError::local(&places.part))
}
