//! How a client names its server over MMSP/1, in clear text.

use manyway::HostPort;
use manyway_terminal::CommandError;

use super::target::names_ticket;
use crate::home::{Home, ServerEntry};

/// The addresses of a server: of `HOST[:PORT]`, or of a known server by its name, whose key plays no part.
///
/// # Errors
/// It is a ticket, or none of these.
pub fn hosts_of(server: &str) -> Result<Vec<HostPort>, CommandError> {
    let server = server.trim();
    if names_ticket(server) {
        return Err(CommandError::usage(
            "a ticket is a secret, and nothing secret goes over MMSP/1; name the server by HOST[:PORT]",
        ));
    }
    let known =
        Home::find().and_then(|home| home.entries::<ServerEntry>()).unwrap_or_default().remove(server);
    if let Some(entry) = known {
        return Ok(entry.hosts.iter().map(|host| host.0.clone()).collect());
    }
    let host: HostPort = server.parse().map_err(|error| {
        CommandError::usage(format!(
            "{server:?} is neither HOST[:PORT] nor a name of `manyway keys list servers`: {error}"
        ))
    })?;
    Ok(vec![host])
}

/// A server answers over MMSP/1 only if it was told to, and only whom it was told to.
pub fn no_answer(error: CommandError) -> CommandError {
    let text = "no answer over MMSP/1 from any address of the server; does `manyway serve --wire mmsp1` run there, does \
                its --from name an address of this host, and does its firewall let UDP to its port through?"
        .to_owned();
    CommandError { text, ..error }
}

#[cfg(test)]
mod tests {
    use manyway_terminal::ExitCode;

    use super::*;

    #[test]
    fn a_server_is_named_by_its_address_and_never_by_a_ticket() {
        for ticket in ["mw1abc", "@home.ticket", " mw1abc"] {
            let error = hosts_of(ticket).unwrap_err();
            assert!(error.code == ExitCode::Usage && error.text.contains("HOST[:PORT]"), "{error}");
            assert!(!error.text.contains("abc"), "{error}");
        }
        let hosts = hosts_of("192.0.2.7:5000").unwrap();
        assert_eq!(hosts, ["192.0.2.7:5000".parse().unwrap()]);
    }
}
