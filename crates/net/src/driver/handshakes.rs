//! TLS handshakes of clients that wait to be admitted: bounded in number and in time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::task::{Context, Poll};

use manyway_proto::FourTuple;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::Accept;

use crate::tcp::{RecordStream, handshake};

/// Most handshakes at once, and of these most from one address. Another client is turned away.
const MOST: usize = 256;
const MOST_OF_HOST: usize = 64;

/// The handshakes that go on.
#[derive(Default)]
pub(super) struct Handshakes {
    tasks: JoinSet<(IpAddr, Option<RecordStream>)>,
    hosts: BTreeMap<IpAddr, usize>,
}

impl Handshakes {
    pub(super) fn start(&mut self, accept: Box<Accept<TcpStream>>, tuple: FourTuple) {
        let host = tuple.remote.ip();
        let of_host = self.hosts.entry(host).or_default();
        if self.tasks.len() < MOST && *of_host < MOST_OF_HOST {
            *of_host += 1;
            self.tasks.spawn(async move { (host, handshake(accept, tuple).await) });
        }
    }

    /// The connections whose handshake is complete.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Vec<RecordStream> {
        let mut complete = Vec::new();
        while let Poll::Ready(Some(joined)) = self.tasks.poll_join_next(context) {
            let Ok((host, stream)) = joined else { continue };
            complete.extend(stream);
            if let Some(count) = self.hosts.get_mut(&host) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.hosts.remove(&host);
                }
            }
        }
        complete
    }
}
