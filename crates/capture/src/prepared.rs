//! A namespace from its making to the start of the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tokio::net::UnixStream;
use tokio::process::Child;

use crate::channel;
use crate::command::RunningCommand;
use crate::connections::Connections;
use crate::error::CaptureError;
use crate::kernel;
use crate::plan::Config;
use crate::stage::STAGE;
use crate::tun::Tun;

/// A namespace in which the command waits for its start. Dropping it ends both.
#[derive(Debug)]
pub struct Prepared {
    child: Child,
    channel: UnixStream,
    connections: Connections,
    tun: Tun,
}

/// A command in its namespace, and what it sends.
#[derive(Debug)]
pub struct Captured {
    /// The command.
    pub command: RunningCommand,
    /// Its TCP connections.
    pub connections: Connections,
    /// Everything else that it sends.
    pub tun: Tun,
}

impl Prepared {
    /// Makes a namespace for a command: its name or path, and its arguments. The command inherits standard input,
    /// output and error, the directory, the environment and the process group.
    ///
    /// Takes some tens of milliseconds. Must be called inside a runtime with I/O.
    ///
    /// # Errors
    /// The system refuses the namespace, or the stage is not started.
    ///
    /// # Examples
    /// ```no_run
    /// use manyway_capture::{Captured, Config, Prepared};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// // The program has called `enter_stage` at the beginning of `main`.
    /// let prepared = Prepared::new(&Config::default(), &["curl".into(), "http://192.0.2.1/".into()]).await?;
    /// let Captured { mut command, connections, tun: _tun } = prepared.start().await?;
    /// tokio::select! {
    ///     accepted = connections.accept() => println!("curl connects to {}", accepted?.1),
    ///     status = command.wait() => println!("curl ended with {}", status?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn new(config: &Config, command: &[OsString]) -> Result<Self, CaptureError> {
        let (here, there) = StdStream::pair()?;
        here.set_nonblocking(true)?;
        let mut process = Command::new(&config.launcher.program);
        if let Some(name) = std::env::args_os().next() {
            process.arg0(name);
        }
        process.args(&config.launcher.arguments).arg(STAGE);
        process.args([descriptor_number(&there), config.mtu.to_string()]).args(command);
        kernel::inherit(&mut process, there.as_fd());
        let child = tokio::process::Command::from(process).spawn()?;
        // The stage has the only copy now, so that its end is noticed.
        drop(there);
        let channel = UnixStream::from_std(here)?;
        let mut descriptors = channel::receive_ready(&channel).await?.into_iter();
        let (Some(device), Some(v4)) = (descriptors.next(), descriptors.next()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidData).into());
        };
        let connections = Connections::new(std::iter::once(v4).chain(descriptors))?;
        Ok(Self { child, channel, connections, tun: Tun::new(device, config.mtu)? })
    }

    /// Starts the command.
    ///
    /// # Errors
    /// It does not exist, or cannot be executed.
    pub async fn start(self) -> Result<Captured, CaptureError> {
        channel::send_go(&self.channel).await?;
        channel::receive_end(&self.channel).await?;
        let command = RunningCommand::new(self.child);
        Ok(Captured { command, connections: self.connections, tun: self.tun })
    }
}

fn descriptor_number(descriptor: &StdStream) -> String {
    use std::os::fd::AsRawFd as _;
    descriptor.as_raw_fd().to_string()
}
