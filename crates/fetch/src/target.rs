//! The address of a file: an absolute URL of HTTP.

use std::fmt;

use data_encoding::BASE64;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::FetchError;
use crate::record::plain_address;

/// Whether a text names a file on a web server rather than anything else.
pub fn is_web_address(text: &str) -> bool {
    let starts =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    starts("http://") || starts("https://")
}

/// The address of a file on a web server. It may hold a user and a password: [`Display`](fmt::Display) leaves them out,
/// and the query with them.
#[derive(Clone, PartialEq, Eq)]
pub struct WebAddress {
    url: Url,
    host: String,
    port: u16,
}

impl WebAddress {
    /// Reads an address that begins with `http://` or `https://`.
    ///
    /// # Errors
    /// If it is none, or has no host.
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        let refused = |reason: String| FetchError::Address { reason };
        let url = Url::parse(text.trim()).map_err(|error| refused(error.to_string()))?;
        Self::of(url).map_err(refused)
    }

    fn of(url: Url) -> Result<Self, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{}: only http and https are known", url.scheme()));
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("it names no host")?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default().ok_or("it names no port")?;
        Ok(Self { url, host, port })
    }

    /// Where a redirect leads.
    ///
    /// # Errors
    /// If that is no address of HTTP, or leads from an encrypted one to one in clear text.
    pub(crate) fn follow(&self, location: &str) -> Result<Self, FetchError> {
        let refused = |reason: String| FetchError::Redirect { reason };
        let mut url = self.url.join(location).map_err(|error| refused(format!("redirect: {error}")))?;
        if self.is_encrypted() && url.scheme() == "http" {
            let to = plain_address(&url);
            return Err(refused(format!(
                "the server redirects from https to {to}, in clear text; if you want that, fetch that address"
            )));
        }
        // A redirect to the same place needs the same password, and no other place may learn it.
        if url.origin() == self.url.origin() && url.username().is_empty() {
            let _ = url.set_username(self.url.username());
            let _ = url.set_password(self.url.password());
        }
        Self::of(url).map_err(|reason| refused(format!("redirect: {reason}")))
    }

    /// Whether it begins with `https://`.
    pub fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The name or address of the host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// What the request line names.
    pub(crate) fn path_and_query(&self) -> String {
        let query = self.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.url.path())
    }

    /// The header `Host`.
    pub(crate) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The header `Authorization`, if the address has a user (RFC 7617).
    pub(crate) fn authorization(&self) -> Option<String> {
        if self.url.username().is_empty() && self.url.password().is_none() {
            return None;
        }
        let mut text: Vec<u8> = percent_decode_str(self.url.username()).collect();
        text.push(b':');
        text.extend(percent_decode_str(self.url.password().unwrap_or_default()));
        Some(format!("Basic {}", BASE64.encode(&text)))
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain_address(&self.url))
    }
}

impl fmt::Debug for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> WebAddress {
        WebAddress::parse(text).unwrap()
    }

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        let with = address("https://h\u{fc}tte.example/a%20b?x=1#y");
        assert_eq!((with.host(), with.port()), ("xn--htte-0ra.example", 443));
        assert_eq!(
            (with.path_and_query(), with.authority()),
            ("/a%20b?x=1".into(), "xn--htte-0ra.example".into())
        );
        let v6 = address("http://[2001:db8::1]:8080/");
        assert_eq!(
            (v6.host(), v6.port(), v6.authority().as_str()),
            ("2001:db8::1", 8080, "[2001:db8::1]:8080")
        );
        for wrong in ["ftp://h/f", "http://", "http://h:99999/", "h/f"] {
            assert!(WebAddress::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_http_is_a_web_address() {
        assert!(is_web_address("http://h/") && is_web_address("HTTPS://h/f"));
        assert!(!is_web_address("mw1abc") && !is_web_address("httpserver") && !is_web_address("http:/h"));
    }

    #[test]
    fn a_password_goes_to_its_own_server_only_and_is_never_shown() {
        let own = address("https://me:p%40ss@h/f?token=1");
        assert_eq!(own.authorization().as_deref(), Some("Basic bWU6cEBzcw=="));
        assert_eq!(
            (own.to_string().as_str(), format!("{own:?}").as_str()),
            ("https://h/f", "WebAddress(https://h/f)")
        );
        assert!(own.follow("/g").unwrap().authorization().is_some());
        for other in ["https://other/f", "https://h:444/f", "//other/f"] {
            assert_eq!(own.follow(other).unwrap().authorization(), None, "{other}");
        }
        assert_eq!(address("http://h/").authorization(), None);
    }

    #[test]
    fn redirects_are_relative_or_absolute_and_never_lose_encryption() {
        let own = address("https://h/a/b?c");
        assert_eq!(own.follow("../d").unwrap().url().as_str(), "https://h/d");
        assert_eq!(address("http://h/").follow("https://h/").unwrap().port(), 443);
        let error = own.follow("http://h/a?token=1").unwrap_err().to_string();
        assert!(error.contains("clear text") && !error.contains("token"), "{error}");
        assert!(own.follow("file:///etc/passwd").is_err());
    }
}
