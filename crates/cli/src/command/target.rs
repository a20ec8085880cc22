//! The server of a command line, and its authentication.

use std::io::{IsTerminal as _, Read as _, Write as _};

use manyway::{
    ConnectError, Connection, ConnectionError, HostPort, Identity, PublicKey, RootCertificates, ServerTrust,
    Ticket,
};

use manyway_terminal::{CommandError, ExitCode, note};
use manyway_transfer::Failure;

use super::code::is_code;
use super::error::{Credential, of_connect, of_refusal};
use crate::args::{GlobalArgs, Trust};
use crate::home::{Entries, Entry as _, Home, HomeError, KeyHash, ServerEntry};
use crate::output::cause;

/// A server, before the connection.
#[derive(Debug)]
pub struct Target {
    hosts: Vec<HostPort>,
    way: Way,
}

/// How the two ends authenticate.
#[derive(Debug)]
enum Way {
    /// A ticket has everything.
    Ticket(Ticket),
    /// A known server, or one that will be stored under this name.
    Key { home: Home, name: String, known: Option<ServerEntry> },
    /// A certificate for its name.
    Certificate { home: Home, roots: RootCertificates, known: Option<ServerEntry> },
}

impl Way {
    /// The credential by which this end authenticates itself.
    fn credential(&self) -> Credential {
        match self {
            Self::Ticket(_) => Credential::Ticket,
            Self::Key { known, .. } | Self::Certificate { known, .. } => {
                let has_ticket = known.as_ref().is_some_and(|entry| entry.secret.is_some());
                if has_ticket { Credential::Ticket } else { Credential::Key }
            }
        }
    }
}

/// What to do about a certificate that is not accepted.
fn next_to_trust(reason: &str) -> &'static str {
    if reason.contains("CA:TRUE") {
        "give the server one with CA:FALSE (`openssl req -x509 … -addext basicConstraints=critical,CA:FALSE`), or leave \
         out --trust: the command then asks once about its key and remembers it"
    } else {
        "--trust names who vouches for the server: keys, system, or a file with the certificate of its authority"
    }
}

impl Target {
    /// Resolves `text` to a server.
    ///
    /// # Errors
    /// If it is none of the three, or the key files cannot be read.
    pub fn find(global: &GlobalArgs, text: &str) -> Result<Self, CommandError> {
        let text = text.trim();
        if let Some(ticket) = ticket(text)? {
            refuse_trust(global)?;
            return Ok(Self { hosts: ticket.hosts().to_vec(), way: Way::Ticket(ticket) });
        }
        let home = Home::find()?;
        let mut servers = home.entries::<ServerEntry>()?;
        if let Some(entry) = servers.remove(text) {
            // Authorities of the settings are ignored where the key is known; those of the command line are used.
            let roots = match &global.trust {
                Some(trust) => roots(trust)?,
                None => None,
            };
            return Ok(match roots {
                Some(roots) => {
                    let hosts = hosts_of(&entry);
                    Self { hosts, way: Way::Certificate { home, roots, known: Some(entry) } }
                }
                None => Self::known(home, text.to_owned(), entry),
            });
        }
        if is_like_ticket(text) {
            // Almost a secret.
            let head: String = text.chars().take(3).collect();
            return Err(CommandError::usage(format!(
                "\"{head}…\" looks like a mistyped ticket: tickets begin with \"mw1\"; if it is a host, name its port, \
                 too: {head}…:{}",
                manyway::DEFAULT_PORT
            )));
        }
        let host: HostPort = text.parse().map_err(|error| {
            CommandError::usage(format!(
                "{text:?} is neither a ticket (mw1…) nor a name of `manyway keys list servers` nor HOST[:PORT]: \
                 {error}{}",
                file_hint(text)
            ))
        })?;
        let Some(roots) = roots(global.trust().unwrap_or(&Trust::Keys))? else {
            let name = host.to_string();
            return Ok(match servers.remove(&name) {
                Some(entry) => Self::known(home, name, entry),
                None => Self { hosts: vec![host], way: Way::Key { home, name, known: None } },
            });
        };
        Ok(Self { hosts: vec![host], way: Way::Certificate { home, roots, known: None } })
    }

    fn known(home: Home, name: String, entry: ServerEntry) -> Self {
        Self { hosts: hosts_of(&entry), way: Way::Key { home, name, known: Some(entry) } }
    }

    /// Its addresses, best first.
    pub fn hosts(&self) -> &[HostPort] {
        &self.hosts
    }

    /// What the server has to prove, and the key with which this end authenticates.
    ///
    /// # Errors
    /// If the own key cannot be read or created.
    pub fn credentials(&self) -> Result<(ServerTrust, Identity), CommandError> {
        Ok(match &self.way {
            Way::Ticket(ticket) => {
                ((*ticket.server_key_hash()).into(), Identity::from_ticket_secret(ticket.secret()))
            }
            Way::Key { home, known: Some(entry), .. } => {
                (entry.key.0.into(), own_identity(home, Some(entry))?)
            }
            Way::Key { home, known: None, .. } => (ServerTrust::AnyKey, home.identity()?.identity()),
            Way::Certificate { home, roots, known } => {
                (ServerTrust::Certificate(roots.clone()), own_identity(home, known.as_ref())?)
            }
        })
    }

    /// Why the connection failed: a changed key has its own error.
    pub fn explain(&self, error: ConnectError) -> CommandError {
        match (&self.way, &error) {
            (
                Way::Ticket(ticket),
                ConnectError::Failed(
                    ConnectionError::ConnectTimeout
                    | ConnectionError::Authentication { .. }
                    | ConnectionError::Unreachable { .. }
                    | ConnectionError::NoPath
                    | ConnectionError::IdleTimeout
                    | ConnectionError::Reset,
                ),
            ) if is_code(ticket.secret()) => CommandError {
                text: "this code was used or its sender has ended, or a firewall there keeps UDP out; ask for a new \
                       code, which `manyway send FILE` prints"
                    .to_owned(),
                ..of_connect(error)
            },
            (
                Way::Key { home, name, known: Some(entry) },
                ConnectError::Failed(ConnectionError::Authentication { shown: Some(shown), .. }),
            ) => changed_key(home, name, entry, shown),
            (way, ConnectError::Failed(ConnectionError::Authentication { reason, .. })) => {
                match (of_refusal(reason, way.credential()), way) {
                    (Some(refusal), _) => refusal,
                    (None, Way::Certificate { .. }) => {
                        CommandError::new(ExitCode::Authentication, format!("{reason}; {}", next_to_trust(reason)))
                    }
                    (None, Way::Ticket(_) | Way::Key { .. }) => of_connect(error),
                }
            }
            (_, ConnectError::Resolve(_)) => {
                let told = of_connect(error);
                let names = self.hosts.iter().map(|host| host.host().to_string());
                let hint = names.map(|name| file_hint(&name)).find(|hint| !hint.is_empty());
                let known = self.names_known_instead();
                CommandError { text: told.text + hint.unwrap_or_default() + &known, ..told }
            }
            _ => of_connect(error),
        }
    }

    /// The servers that have a name here, if an unknown name was given.
    fn names_known_instead(&self) -> String {
        let (Way::Key { home, known: None, .. } | Way::Certificate { home, known: None, .. }) = &self.way
        else {
            return String::new();
        };
        let servers = home.entries::<ServerEntry>().unwrap_or_default();
        let mut names: Vec<_> = servers.into_keys().take(MOST_NAMES + 1).collect();
        if names.is_empty() {
            // A name with a dot was meant for a name server.
            let is_short = self.hosts.iter().any(|host| !host.host().to_string().contains('.'));
            let text = "; no server has a name here yet (`manyway keys list servers`)";
            return if is_short { text.to_owned() } else { String::new() };
        }
        if names.len() > MOST_NAMES {
            names.truncate(MOST_NAMES);
            names.push("…".to_owned());
        }
        format!("; servers with a name here: {} (`manyway keys list servers`)", names.join(", "))
    }

    /// Decides about a server that is not known yet. Nothing was sent to it before (spec 7.41).
    ///
    /// # Errors
    /// [`ExitCode::Authentication`] if it is not trusted.
    pub async fn check(&self, global: &GlobalArgs, connection: &Connection) -> Result<(), CommandError> {
        let Way::Key { home, name, known: None } = &self.way else { return Ok(()) };
        let Some(shown) = connection.peer_key() else {
            return Err(CommandError::new(ExitCode::Authentication, "the server showed no key"));
        };
        let hash = KeyHash::from(&shown);
        if !global.trust_on_first_use {
            if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
                return Err(unknown_key(name, &hash));
            }
            ask(name, &hash).await?;
        }
        let entry = ServerEntry::new(hash, self.hosts.clone(), None);
        let kept = home.change(|servers: &mut Entries<ServerEntry>| {
            Ok::<_, HomeError>(servers.entry(name.clone()).or_insert(entry).clone())
        })?;
        if kept.key != hash {
            // Another command met another server of this name at the same time.
            return Err(changed_key(home, name, &kept, &shown));
        }
        if !global.quiet {
            note(&format!("{name} is known from now on by its key {hash}"));
        }
        Ok(())
    }
}

/// Whether a server of this name is saved. Key files that cannot be read have none.
pub fn is_saved(name: &str) -> bool {
    let servers = Home::find().and_then(|home| home.entries::<ServerEntry>());
    servers.is_ok_and(|servers| servers.contains_key(name))
}

/// Whether a text names a ticket: the ticket itself, or a file with one.
pub fn names_ticket(text: &str) -> bool {
    is_ticket(text) || text.starts_with('@')
}

/// The name of a server for others to read: never its ticket.
pub fn public_name(text: &str) -> Option<String> {
    let text = text.trim();
    (!names_ticket(text)).then(|| text.to_owned())
}

/// The ticket that a text is, or names by `@FILE`; `None` if it is neither.
///
/// # Errors
/// The file cannot be read, or the ticket is not valid.
pub fn ticket(text: &str) -> Result<Option<Ticket>, CommandError> {
    let read = ticket_of_file(text)?;
    let text = read.as_deref().unwrap_or(text);
    if !is_ticket(text) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| CommandError::usage(format!("invalid ticket: {error}")))
}

/// The ticket in the file of `@FILE`, so that the arguments of a process hold no secret.
fn ticket_of_file(text: &str) -> Result<Option<String>, CommandError> {
    let Some(name) = text.strip_prefix('@') else { return Ok(None) };
    let failed = |reason: &dyn std::fmt::Display| CommandError::usage(format!("{text}: {reason}"));
    let mut content = Vec::new();
    let file = std::fs::File::open(name).map_err(|error| failed(&Failure::from_io(&error)))?;
    file.take(LONGEST_TICKET).read_to_end(&mut content).map_err(|error| failed(&Failure::from_io(&error)))?;
    // A ticket is text.
    let ticket = std::str::from_utf8(&content).unwrap_or_default().trim();
    if !is_ticket(ticket) {
        return Err(failed(
            &"no ticket is in this file; `manyway keys show --ticket` at the server prints it",
        ));
    }
    Ok(Some(ticket.to_owned()))
}

/// Names of servers in an error.
const MOST_NAMES: usize = 8;
/// Far more than any ticket has.
const LONGEST_TICKET: u64 = 64 * 1024;

/// A ticket has the key of its server, so `--trust` has no use.
fn refuse_trust(global: &GlobalArgs) -> Result<(), CommandError> {
    let option = if global.trust.is_some() {
        "--trust"
    } else if global.trust_on_first_use {
        "--trust-on-first-use"
    } else {
        return Ok(());
    };
    Err(CommandError::usage(format!(
        "a ticket says itself which key the server has; leave out {option}, or name the server by HOST"
    )))
}

/// The client's identity for a server: the stored ticket, or the own key.
fn own_identity(home: &Home, server: Option<&ServerEntry>) -> Result<Identity, CommandError> {
    Ok(match server.and_then(|entry| entry.secret.as_ref()) {
        Some(secret) => Identity::from_ticket_secret(&secret.0),
        None => home.identity()?.identity(),
    })
}

fn hosts_of(entry: &ServerEntry) -> Vec<HostPort> {
    entry.hosts.iter().map(|host| host.0.clone()).collect()
}

/// The authorities that may certify a server; `None` where its key has to be known.
fn roots(trust: &Trust) -> Result<Option<RootCertificates>, CommandError> {
    let file = match trust {
        Trust::Keys => return Ok(None),
        Trust::System => return system_roots().map(Some),
        Trust::File(file) => file,
    };
    let usage =
        |reason: &dyn std::fmt::Display| CommandError::usage(format!("--trust {}: {reason}", file.display()));
    let pem = std::fs::read(file).map_err(|error| usage(&cause(&error)))?;
    RootCertificates::from_pem(&pem).map(Some).map_err(|fault| usage(&fault))
}

/// Whether a text is meant as a ticket, of this version or another: no host has such a name.
pub fn is_ticket(text: &str) -> bool {
    let mut characters = text.chars().map(|c| c.to_ascii_lowercase());
    characters.next() == Some('m')
        && characters.next() == Some('w')
        && characters.next().is_some_and(|c| c.is_ascii_digit())
        && characters.all(|c| c.is_ascii_alphanumeric() || !c.is_ascii())
}

/// Whether a name is rather a ticket with wrong letters at its beginning: one word, of the characters of tickets.
fn is_like_ticket(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let is_of_tickets = |c: char| c.is_ascii_lowercase() || ('2'..='7').contains(&c);
    let Some((head, rest)) = text.split_at_checked(3) else { return false };
    let has_digit = head.ends_with('1') && head.contains(['m', 'w']);
    let has_letters = head.starts_with("mw") && rest.len() >= MANY;
    rest.len() >= FEW
        && rest.chars().all(is_of_tickets)
        && (has_digit || has_letters || rest.len() >= 2 * MANY)
}

/// Most characters after the beginning of a name that only looks like a ticket.
const FEW: usize = 3;
/// No host name of one word is this long.
const MANY: usize = 20;

/// A hint if the name of a server is the name of a file here.
fn file_hint(name: &str) -> &'static str {
    let is_there = std::fs::symlink_metadata(name).is_ok();
    if is_there { "; a file here has this name: the ticket or server stands in its place" } else { "" }
}

fn system_roots() -> Result<RootCertificates, CommandError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(reason = %error, "an authority of the system can not be read");
    }
    RootCertificates::from_der(found.certs.iter().map(|certificate| certificate.to_vec())).map_err(|_| {
        CommandError::new(
            ExitCode::Failed,
            "this system trusts no authority; install its package of certificates (ca-certificates), or name a file \
             by --trust FILE",
        )
    })
}

fn unknown_key(name: &str, hash: &KeyHash) -> CommandError {
    CommandError::new(
        ExitCode::Authentication,
        format!(
            "the server {name} is not known yet; its key is {hash}. If `manyway keys show` there prints the same, run \
             `manyway keys add server NAME {name} --key {hash}`, or use --trust-on-first-use to keep it unseen"
        ),
    )
}

fn changed_key(home: &Home, name: &str, entry: &ServerEntry, shown: &PublicKey) -> CommandError {
    CommandError::new(
        ExitCode::Authentication,
        format!(
            "the key of the server {name} CHANGED: it is {shown} now, and was {} (in {}, since {}). Another host may be \
             in its place. If `manyway keys show` there prints the new one, run `manyway keys remove {name}`",
            entry.key,
            home.file_of::<ServerEntry>().display(),
            entry.created,
        ),
    )
}

/// Asks the user for a decision, which has to be typed as a whole word.
async fn ask(name: &str, hash: &KeyHash) -> Result<(), CommandError> {
    let mut err = std::io::stderr().lock();
    write!(
        err,
        "The {} {name} is not known yet. Its key is\n  {hash}\nCompare it with what `manyway keys show` prints \
         there. Is it the same? (yes/no) ",
        ServerEntry::NOUN
    )?;
    err.flush()?;
    drop(err);
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let answer = answer.await.map_err(|error| CommandError::new(ExitCode::Failed, error))??;
    if answer.trim().eq_ignore_ascii_case("yes") {
        Ok(())
    } else {
        Err(CommandError::new(ExitCode::Authentication, format!("the server {name} is not trusted")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_ticket_is_distinguished_from_a_host() {
        let long = "mwl".to_owned() + &"ab2".repeat(20);
        for text in ["tm1abc", "wm1abc", "nw1abcd", &long, &"aff5vv3w".repeat(8)] {
            assert!(is_like_ticket(text), "{text}");
        }
        for text in
            ["nas", "media", "media:4455", "db1", "pc1office", "mw1.example.org", "w1-server", "192.0.2.7"]
        {
            assert!(!is_like_ticket(text), "{text}");
        }
    }

    #[test]
    fn a_ticket_can_be_in_a_file() {
        let place = tempfile::TempDir::new().unwrap();
        let file = place.path().join("ticket");
        let named = || ticket_of_file(&format!("@{}", file.display()));
        assert_eq!(named().unwrap_err().code, ExitCode::Usage);
        std::fs::write(&file, "mw1abc\n").unwrap();
        assert_eq!(named().unwrap().as_deref(), Some("mw1abc"));
        std::fs::write(&file, "hello\n").unwrap();
        assert!(named().unwrap_err().text.contains("no ticket is in this file"));
        std::fs::write(&file, b"\x89PNG\xff\xfe").unwrap();
        assert!(named().unwrap_err().text.contains("no ticket is in this file"));
        assert_eq!(ticket_of_file("mw1abc").unwrap(), None);
    }

    #[test]
    fn a_ticket_is_never_shown_to_others() {
        assert_eq!((public_name("mw1abc"), public_name("@secret")), (None, None));
        assert_eq!(public_name("home").as_deref(), Some("home"));
    }

    #[test]
    fn tickets_are_distinguished_from_hosts() {
        for text in ["mw1abc", "MW1ABC", "mw9x", "mw1", "mw1ab…"] {
            assert!(is_ticket(text), "{text}");
        }
        for text in ["mw1.example.org", "mwx", "media:4455", "mw1-server", "192.0.2.7", ""] {
            assert!(!is_ticket(text), "{text}");
        }
    }

    #[test]
    fn a_refusal_names_the_credential_and_for_a_certificate_the_remedy() {
        let refused = |way: Way, reason: &str| {
            let target = Target { hosts: Vec::new(), way };
            let reason = reason.to_owned();
            target.explain(ConnectError::Failed(ConnectionError::Authentication { reason, shown: None })).text
        };
        let place = tempfile::TempDir::new().unwrap();
        let certificate = || {
            let key = rcgen::KeyPair::generate().unwrap();
            let made = rcgen::CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap();
            let roots = RootCertificates::from_pem(made.pem().as_bytes()).unwrap();
            Way::Certificate { home: Home::at(place.path()), roots, known: None }
        };
        let ticket = Ticket::new([7; 16], [1; 16], vec!["192.0.2.7:4455".parse().unwrap()]).unwrap();
        let alert = "the key that the peer showed is not accepted here (TLS alert 49)";
        assert!(refused(Way::Ticket(ticket), alert).starts_with("the server refused this ticket: "));
        assert!(refused(certificate(), alert).starts_with("the server refused this client's key: "));
        let text = refused(certificate(), "the server's certificate is that of an authority (CA:TRUE)");
        assert!(text.contains("basicConstraints=critical,CA:FALSE"), "{text}");
    }

    #[test]
    fn the_error_of_an_unknown_host_lists_the_named_servers() {
        let place = tempfile::TempDir::new().unwrap();
        let home = Home::at(place.path());
        let way = || Way::Key { home: home.clone(), name: "hom:4455".to_owned(), known: None };
        let told = || Target { hosts: Vec::new(), way: way() }.names_known_instead();
        assert_eq!(told(), "");
        home.change(|servers: &mut Entries<ServerEntry>| {
            for name in ["home", "office"] {
                servers.insert(name.to_owned(), ServerEntry::new(KeyHash([7; 16]), Vec::new(), None));
            }
            Ok::<_, HomeError>(())
        })
        .unwrap();
        assert_eq!(told(), "; servers with a name here: home, office (`manyway keys list servers`)");
    }
}
