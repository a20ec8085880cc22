//! The HTTP proxy of TCP connections, from the command line or the environment.

use std::env;

use manyway::Proxy;

/// A proxy, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via(pub Option<Proxy>);

impl Via {
    /// What the environment says, as for other programs: `HTTPS_PROXY` or `https_proxy`, unless `NO_PROXY` is `*`. A
    /// value that names no proxy causes a warning, and is ignored.
    pub fn of_environment() -> Self {
        let read = |names: [&str; 2]| {
            names.into_iter().filter_map(|name| env::var(name).ok()).find(|it| !it.is_empty())
        };
        Self::from_values(read(["https_proxy", "HTTPS_PROXY"]), read(["no_proxy", "NO_PROXY"]))
    }

    fn from_values(proxy: Option<String>, except: Option<String>) -> Self {
        let is_off = except.is_some_and(|except| except.split(',').any(|name| name.trim() == "*"));
        let Some(text) = proxy.filter(|_| !is_off) else { return Self(None) };
        match text.parse() {
            Ok(proxy) => Self(Some(proxy)),
            Err(error) => {
                tracing::warn!(%error, "HTTPS_PROXY is not used");
                Self(None)
            }
        }
    }
}

/// Reads a value of the command line.
///
/// # Errors
/// It is no proxy; the text says what one looks like.
pub(super) fn parse_via(text: &str) -> Result<Via, String> {
    if text == "none" {
        return Ok(Via(None));
    }
    text.parse().map(|proxy| Via(Some(proxy))).map_err(|error: manyway::ConfigError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_counts_as_for_other_programs() {
        let of = |proxy: &str, except: &str| {
            let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            Via::from_values(text(proxy), text(except)).0.map(|proxy| proxy.to_string())
        };
        assert_eq!(of("http://proxy:3128", "").as_deref(), Some("http://proxy:3128"));
        assert_eq!(of("http://proxy:3128", "localhost").as_deref(), Some("http://proxy:3128"));
        assert_eq!(of("http://proxy:3128", "localhost,*"), None);
        assert_eq!(of("", ""), None);
        assert_eq!(of("socks5://proxy:1", ""), None);
    }

    #[test]
    fn the_option_names_a_proxy_or_none() {
        assert_eq!(parse_via("none"), Ok(Via(None)));
        assert!(parse_via("http://proxy:3128").is_ok_and(|via| via.0.is_some()));
        assert!(parse_via("socks5://proxy").is_err_and(|text| text.contains("http://HOST:PORT")));
    }
}
