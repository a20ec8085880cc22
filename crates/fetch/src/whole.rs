//! A file over one connection, from its first byte to its last.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Response, StatusCode, header};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::error::FetchError;
use crate::event::Event;
use crate::http::{Connection, Dialler, of_http};
use crate::locate::{of_fault, of_status, text_of};
use crate::network::{Interface, Limit, Network};
use crate::part::{Block, Writer};
use crate::pieces::GIVE_UP;
use crate::target::WebAddress;

const LOOK: Duration = Duration::from_millis(250);

/// What is fetched, and over what.
pub(crate) struct Whole<'a, N> {
    pub(crate) dialler: &'a Dialler<N>,
    pub(crate) address: &'a WebAddress,
    pub(crate) interface: &'a Interface,
    /// A connection to ask over.
    pub(crate) connection: Option<Connection>,
    /// The answer, if the file was asked for already.
    pub(crate) response: Option<Response<Incoming>>,
    pub(crate) limit: Option<&'a dyn Limit>,
    pub(crate) observer: &'a (dyn Fn(Event<'_>) + Send + Sync),
}

impl<N: Network> Whole<'_, N> {
    /// Fetches and writes it.
    pub(crate) async fn run<T: Send + 'static>(
        mut self,
        (blocks, writer): (mpsc::Sender<Block>, Writer<T>),
        stop: impl Future<Output = ()>,
    ) -> Result<T, FetchError> {
        let result = tokio::select! {
            result = self.fetch(&blocks) => result,
            () = stop => Err(FetchError::Stopped { is_kept: false }),
        };
        drop(blocks);
        let written = writer.end().await?;
        result.map(|()| written)
    }

    async fn fetch(&mut self, blocks: &mpsc::Sender<Block>) -> Result<(), FetchError> {
        let response = match self.response.take() {
            Some(response) => response,
            None => self.ask().await?,
        };
        if response.status() != StatusCode::OK {
            return Err(of_fault(self.address, of_status(&response)));
        }
        let length = text_of(&response, &header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
        let mut body = response.into_body();
        let mut offset = 0;
        loop {
            while let Some(wait) = self.limit.and_then(Limit::wait) {
                sleep(wait).await;
            }
            let Some(data) = self.next(&mut body).await? else { break };
            let size = u64::try_from(data.len()).unwrap_or(u64::MAX);
            if let Some(limit) = self.limit {
                limit.spend(data.len());
            }
            if blocks.send(Block { offset, data }).await.is_err() {
                // The error of the writer follows.
                return Err(FetchError::Stopped { is_kept: false });
            }
            offset += size;
            (self.observer)(Event::Advanced { bytes: size });
        }
        match length {
            Some(length) if length != offset => Err(broken("the server closed the connection early")),
            Some(_) | None => Ok(()),
        }
    }

    async fn ask(&mut self) -> Result<Response<Incoming>, FetchError> {
        let patience = self.dialler.patience;
        if let Some(open) = self.connection.as_mut().filter(|open| !open.is_closed())
            && let Ok(response) = open.get(self.address, None, None, patience).await
        {
            return Ok(response);
        }
        let failed = |fault| of_fault(self.address, fault);
        let remotes = self.dialler.resolve(self.address).await?;
        let mut open = self.dialler.open(self.interface, self.address, &remotes).await.map_err(failed)?;
        let response = open.get(self.address, None, None, patience).await.map_err(failed)?;
        self.connection = Some(open);
        Ok(response)
    }

    /// The next bytes; `None` at the end.
    async fn next(&self, body: &mut Incoming) -> Result<Option<Bytes>, FetchError> {
        let begun = Instant::now();
        loop {
            match timeout(LOOK, body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Ok(Some(Err(error))) => return Err(broken(&of_http(&error).to_string())),
                Err(_) if begun.elapsed() >= GIVE_UP => {
                    return Err(broken(&format!("nothing came for {} s", GIVE_UP.as_secs())));
                }
                Err(_) => {}
            }
        }
    }
}

fn broken(reason: &str) -> FetchError {
    FetchError::Broken { reason: reason.to_owned(), is_kept: false }
}
