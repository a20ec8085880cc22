//! The destination of the connections: a server that sends back what it gets.

use std::io::{self, Read as _, Write as _};
use std::thread;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Listens on loopback, prints the address, and sends back what comes until standard input ends.
///
/// # Errors
/// The system refuses the socket, or the address cannot be printed.
pub fn serve_echo() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        writeln!(io::stdout(), "{}", listener.local_addr()?)?;
        let (ended, mut end) = tokio::sync::oneshot::channel::<()>();
        thread::spawn(move || {
            let _ended = ended;
            // Its end, or an error, ends this process.
            let _ = io::stdin().read_to_end(&mut Vec::new());
        });
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (mut socket, _) = accepted?;
                    tokio::spawn(async move {
                        let mut bytes = [0; super::load::REQUEST];
                        while let Ok(1..) = socket.read(&mut bytes[..1]).await {
                            let Ok(_) = socket.read_exact(&mut bytes[1..]).await else { return };
                            if socket.write_all(&bytes).await.is_err() {
                                return;
                            }
                        }
                    });
                }
                _ = &mut end => return Ok(()),
            }
        }
    })
}
