//! The authorised clients: bearers of tickets, and clients with a key of their own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use manyway::{Authoriser, PublicKey};

use super::journal::Journal;
use crate::home::{ClientEntry, Entries, Entry, Home, HomeError, KeyHash, Rights, Stamp, TicketEntry};
use crate::output::address;

/// An authorised client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorisedClient {
    /// The name of the ticket or client; over MMSP/1 the address.
    pub name: String,
    /// `ticket`, `client` or `address`.
    pub noun: &'static str,
    /// Its rights.
    pub rights: Rights,
}

/// The list of authorised clients; follows the files while the server runs.
#[derive(Debug)]
pub struct AuthorisedClients {
    list: RwLock<Arc<BTreeMap<KeyHash, AuthorisedClient>>>,
    source: Option<Source>,
    /// Logs refused clients.
    journal: Option<Journal>,
}

/// The files, and their state when they were read.
#[derive(Debug)]
struct Source {
    home: Home,
    seen: RwLock<[Stamp; 2]>,
}

impl AuthorisedClients {
    /// The list of these files.
    ///
    /// # Errors
    /// If one of them is damaged or readable by others.
    pub fn of_home(home: Home) -> Result<Self, HomeError> {
        // The stamps are read first: a change in between is detected later.
        let seen = stamps(&home);
        let list = read(&home)?;
        let source = Source { home, seen: RwLock::new(seen) };
        Ok(Self { list: RwLock::new(Arc::new(list)), source: Some(source), journal: None })
    }

    /// A list of one ticket that is in no file.
    pub fn of_ticket(name: &str, ticket: &TicketEntry) -> Self {
        let client =
            AuthorisedClient { name: name.to_owned(), noun: TicketEntry::NOUN, rights: ticket.rights() };
        let list = BTreeMap::from([(ticket.client_key(), client)]);
        Self { list: RwLock::new(Arc::new(list)), source: None, journal: None }
    }

    /// An empty list, for a server without keys.
    pub fn empty() -> Self {
        Self { list: RwLock::default(), source: None, journal: None }
    }

    /// The same list, which logs refused clients.
    #[must_use]
    pub fn with_journal(self, journal: Journal) -> Self {
        Self { journal: Some(journal), ..self }
    }

    /// The client with this key, if it is authorised now.
    pub fn find(&self, key: &PublicKey) -> Option<AuthorisedClient> {
        let list = Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner));
        list.get(&KeyHash::from(key)).filter(|client| !client.rights.are_over()).cloned()
    }

    /// Number of authorised clients.
    pub fn count(&self) -> usize {
        self.list.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Reads the files again if they changed; returns whether they did. An unreadable list changes nothing, until the
    /// files change once more.
    ///
    /// # Errors
    /// If one of them is damaged or readable by others.
    pub fn refresh(&self) -> Result<bool, HomeError> {
        let Some(source) = &self.source else { return Ok(false) };
        let now = stamps(&source.home);
        let mut seen = source.seen.write().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return Ok(false);
        }
        *seen = now;
        let list = read(&source.home)?;
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(list);
        Ok(true)
    }
}

impl Authoriser for AuthorisedClients {
    /// Checks the files first, which costs two system calls: a removed client cannot connect any more.
    fn is_authorised(&self, client: &PublicKey) -> bool {
        if let Err(error) = self.refresh() {
            tracing::warn!(reason = %error, "the list of tickets and clients stays as it was");
        }
        self.find(client).is_some()
    }

    fn on_refused(&self, from: SocketAddr) {
        if let Some(journal) = &self.journal {
            journal.unknown_client(&address(from));
        }
    }
}

fn stamps(home: &Home) -> [Stamp; 2] {
    [home.stamp::<TicketEntry>(), home.stamp::<ClientEntry>()]
}

fn read(home: &Home) -> Result<BTreeMap<KeyHash, AuthorisedClient>, HomeError> {
    let tickets: Entries<TicketEntry> = home.entries()?;
    let clients: Entries<ClientEntry> = home.entries()?;
    let mut list = BTreeMap::new();
    for (name, entry) in tickets {
        let (key, rights) = (entry.client_key(), entry.rights());
        list.insert(key, AuthorisedClient { name, noun: TicketEntry::NOUN, rights });
    }
    for (name, entry) in clients {
        let rights = entry.rights();
        list.insert(entry.key, AuthorisedClient { name, noun: ClientEntry::NOUN, rights });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway::Identity;
    use tempfile::TempDir;

    use super::*;
    use crate::home::{Secret, Timestamp};

    #[test]
    fn the_list_follows_its_files() {
        let place = TempDir::new().unwrap();
        let home = Home::at(place.path());
        let authorised = AuthorisedClients::of_home(home.clone()).unwrap();
        let bearer = *Identity::from_ticket_secret(&[1; 16]).public_key();
        assert!(!authorised.is_authorised(&bearer) && !authorised.refresh().unwrap());

        let rights = Rights { read_only: true, ..Rights::default() };
        change(&home, |tickets| drop(tickets.insert("alice".into(), ticket(rights.clone()))));
        assert!(authorised.find(&bearer).is_none(), "not before it was read");
        assert!(authorised.refresh().unwrap() && !authorised.refresh().unwrap());
        let client = authorised.find(&bearer).unwrap();
        assert_eq!((client.name.as_str(), client.noun, client.rights), ("alice", "ticket", rights));

        change(&home, Entries::clear);
        assert!(!authorised.is_authorised(&bearer), "each new connection is looked up again");
    }

    #[test]
    fn a_client_with_a_key_of_its_own_is_recognised() {
        let place = TempDir::new().unwrap();
        let home = Home::at(place.path());
        let laptop = *Identity::from_seed(&[3; 32]).public_key();
        home.change(|clients: &mut Entries<ClientEntry>| {
            clients.insert("laptop".into(), ClientEntry::new(KeyHash::from(&laptop), Rights::default()));
            Ok::<_, HomeError>(())
        })
        .unwrap();
        let authorised = AuthorisedClients::of_home(home).unwrap();
        assert_eq!(authorised.find(&laptop).unwrap().noun, "client");
        assert!(authorised.find(Identity::from_seed(&[4; 32]).public_key()).is_none());
        assert_eq!(authorised.count(), 1);
    }

    #[test]
    fn expired_rights_admit_no_client() {
        let bearer = *Identity::from_ticket_secret(&[1; 16]).public_key();
        let until = |expires| Rights { expires: Some(expires), ..Rights::default() };
        let is_in = |rights| AuthorisedClients::of_ticket("t", &ticket(rights)).is_authorised(&bearer);
        assert!(is_in(until(Timestamp::now().after(Duration::from_secs(60)))));
        assert!(!is_in(until(Timestamp::now())));
    }

    #[test]
    fn unreadable_files_leave_the_list_as_it_was() {
        let place = TempDir::new().unwrap();
        let home = Home::at(place.path());
        change(&home, |tickets| drop(tickets.insert("alice".into(), ticket(Rights::default()))));
        let authorised = AuthorisedClients::of_home(home.clone()).unwrap();
        std::fs::write(home.file_of::<TicketEntry>(), "nonsense").unwrap();
        assert!(authorised.refresh().is_err());
        assert!(!authorised.refresh().unwrap(), "it is said once");
        assert_eq!(authorised.count(), 1);
    }

    fn ticket(rights: Rights) -> TicketEntry {
        TicketEntry::new(Secret([1; 16]), rights, Vec::new())
    }

    fn change(home: &Home, change: impl FnOnce(&mut Entries<TicketEntry>)) {
        home.change(|tickets| {
            change(tickets);
            Ok::<_, HomeError>(())
        })
        .unwrap();
    }
}
