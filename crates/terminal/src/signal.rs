//! Ctrl-C and SIGTERM.

/// Waits for Ctrl-C or SIGTERM and returns which it was. It listens from the call on, not only once it is awaited, and
/// must be called inside a runtime.
pub fn signalled() -> impl Future<Output = &'static str> {
    #[cfg(unix)]
    let signals = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::interrupt()).and_then(|first| Ok((first, signal(SignalKind::terminate())?)))
    };
    async move {
        #[cfg(unix)]
        if let Ok((mut interrupt, mut terminate)) = signals {
            return tokio::select! {
                _ = interrupt.recv() => "Ctrl-C",
                _ = terminate.recv() => "SIGTERM",
            };
        }
        // Without the handler the system's default ends the process all the same.
        let _ = tokio::signal::ctrl_c().await;
        "Ctrl-C"
    }
}
