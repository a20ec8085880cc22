//! The secrets of connections for `SSLKEYLOGFILE`.

use std::sync::Arc;

use rustls::{ClientConfig, KeyLogFile, ServerConfig};

/// The sink of secrets: none, unless the application allows it and the environment names a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyLog(Option<Arc<dyn rustls::KeyLog>>);

impl KeyLog {
    /// Opens the file once; all connections of an endpoint share it.
    pub(crate) fn new(is_allowed: bool) -> Self {
        let wanted = is_allowed.then(|| std::env::var_os("SSLKEYLOGFILE")).flatten();
        let Some(file) = wanted.filter(|name| !name.is_empty()) else { return Self::default() };
        let file = std::path::Path::new(&file).display().to_string();
        tracing::warn!(%file, "SSLKEYLOGFILE is set: who has this file can read these connections");
        Self(Some(Arc::new(KeyLogFile::new())))
    }

    /// The settings of a client that logs its secrets.
    pub(crate) fn client(&self, mut config: Arc<ClientConfig>) -> Arc<ClientConfig> {
        if let Some(log) = &self.0 {
            Arc::make_mut(&mut config).key_log = Arc::clone(log);
        }
        config
    }

    /// The settings of a server that logs its secrets.
    pub(crate) fn server(&self, mut config: Arc<ServerConfig>) -> Arc<ServerConfig> {
        if let Some(log) = &self.0 {
            Arc::make_mut(&mut config).key_log = Arc::clone(log);
        }
        config
    }
}
