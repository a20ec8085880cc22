//! The TUN device of the namespace.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

use crate::kernel;

/// The device by which packets that are no TCP leave the namespace, and by which answers come back.
///
/// The command's end may be gone; then packets are dropped.
#[derive(Debug)]
pub struct Tun {
    device: AsyncFd<OwnedFd>,
    mtu: u16,
}

impl Tun {
    /// Takes over a descriptor in non-blocking mode. Must be called inside a runtime.
    pub(crate) fn new(device: OwnedFd, mtu: u16) -> io::Result<Self> {
        Ok(Self { device: kernel::register(device)?, mtu })
    }

    /// Largest packet that the command sends, in bytes. [`Tun::send`] accepts larger ones, up to 65 535.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Waits for the next packet that the command sends, and returns its length. A buffer of [`Tun::mtu`] bytes is
    /// enough; a shorter one cuts packets off.
    ///
    /// Cancelling it loses no packet.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.device.readable().await?;
            let read = |device: &AsyncFd<OwnedFd>| Ok(rustix::io::read(device.get_ref(), &mut *buffer)?);
            match ready.try_io(read) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    /// As [`Tun::send`], but a packet for which there is no room is lost, as on any network.
    ///
    /// # Errors
    /// As [`Tun::send`], or there is no room.
    pub fn try_send(&self, packet: &[u8]) -> io::Result<()> {
        Ok(rustix::io::write(self.device.get_ref(), packet).map(drop)?)
    }

    /// Gives the command an IP packet.
    ///
    /// # Errors
    /// It is no IP packet, or the device is gone.
    pub async fn send(&self, packet: &[u8]) -> io::Result<()> {
        loop {
            let mut ready = self.device.writable().await?;
            let write = |device: &AsyncFd<OwnedFd>| Ok(rustix::io::write(device.get_ref(), packet)?);
            match ready.try_io(write) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return result.map(drop),
                Err(_would_block) => {}
            }
        }
    }
}
