//! Codes that people can say, at both ends: `send` offers its ticket under one, `get` redeems it.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway::{
    CodeError, CodeFailure, ConnectError, Connection, Endpoint, EndpointOptions, HostPort, OfferedCode,
    RedeemedCode, ShortCode, ShortCodeError, Ticket, Wire,
};
use manyway_terminal::{CommandError, ExitCode, note};
use tokio::sync::Mutex;

use super::names::unknown;
use super::signal::{close, until_interrupted};
use super::target::is_saved;
use crate::args::GlobalArgs;

/// The code that a text is; `None` if it is something else.
///
/// # Errors
/// It is meant as a code, but has a word that occurs in none.
pub(super) fn parse(text: &str) -> Result<Option<ShortCode>, CommandError> {
    match text.parse::<ShortCode>() {
        // A saved server may have such a name.
        Ok(_) | Err(ShortCodeError::Word(_)) if is_saved(text) => Ok(None),
        Ok(code) => Ok(Some(code)),
        Err(error) => match &error {
            ShortCodeError::Word(word) => Err(unknown(&error, word, ShortCode::words())),
            ShortCodeError::Shape | _ => Ok(None),
        },
    }
}

/// What a code led to, for the connections of a command.
#[derive(Debug, Clone)]
pub struct Redeemed {
    ticket: Ticket,
    way: Arc<Mutex<RedeemedCode>>,
}

impl Redeemed {
    /// The ticket, which stays valid while its sender runs.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Connects to the sender, which lets the packets of this host in; over a relay, where there is no other way.
    pub(super) async fn connect(
        &self,
        endpoint: &Endpoint,
        hosts: &[HostPort],
    ) -> Result<Connection, ConnectError> {
        self.way.lock().await.connect(endpoint, hosts).await
    }
}

/// Redeems a code at these rendezvous servers, with the settings of a client.
///
/// # Errors
/// No rendezvous server is named, or there is no ticket: the text says why and what to do.
pub(super) async fn redeem(
    global: &GlobalArgs,
    code: &ShortCode,
    servers: &[SocketAddr],
    options: EndpointOptions,
) -> Result<Redeemed, CommandError> {
    if global.wire == Wire::Mmsp1 {
        return Err(CommandError::usage(
            "a code leads to a secret, which never goes over MMSP/1; leave out --wire mmsp1",
        ));
    }
    if servers.is_empty() {
        return Err(CommandError::usage(format!(
            "the code {}-… is kept by a rendezvous server: name the one of the sender by --rendezvous HOST",
            code.number()
        )));
    }
    let endpoint = Endpoint::bind(options).map_err(CommandError::failed)?;
    let redeemed = until_interrupted(async { Ok(endpoint.redeem_code(code, servers).await) }).await?;
    close(&endpoint, "the code is redeemed").await;
    let way = redeemed.map_err(|error| not_redeemed(&error))?;
    Ok(Redeemed { ticket: way.ticket().clone(), way: Arc::new(Mutex::new(way)) })
}

/// Why a code led to nothing at the end that has it.
fn not_redeemed(error: &CodeError) -> CommandError {
    let failure = match error {
        CodeError::Failed(failure) => failure,
        CodeError::NoInterface(_) => return CommandError::new(ExitCode::Unreachable, error),
        CodeError::System(_) | CodeError::TooLong | CodeError::Ticket(_) | CodeError::EndpointClosed | _ => {
            return CommandError::failed(error);
        }
    };
    let (code, next) = match failure {
        CodeFailure::NoAnswer => (ExitCode::Unreachable, "check --rendezvous"),
        CodeFailure::Unknown => (
            ExitCode::Authentication,
            "the number is mistyped, the code was used or is older than an hour, or its sender has another \
             --rendezvous",
        ),
        CodeFailure::Wrong => {
            (ExitCode::Authentication, "one attempt with a wrong word makes a code void: ask for a new one")
        }
        CodeFailure::Full
        | CodeFailure::Lost
        | CodeFailure::Used
        | CodeFailure::Expired
        | CodeFailure::Abandoned
        | _ => (ExitCode::Authentication, "ask for a new one, which `manyway send FILE` prints"),
    };
    CommandError::new(code, format!("{failure}; {next}"))
}

/// Opens a code for a ticket at the rendezvous servers of the options; `None` if none are named. `None` with a note for
/// the user if they open none.
pub(super) async fn offer(
    global: &GlobalArgs,
    endpoint: &Endpoint,
    (servers, ticket): (&[SocketAddr], &Ticket),
) -> Result<Option<OfferedCode>, CommandError> {
    if servers.is_empty() {
        return Ok(None);
    }
    match until_interrupted(async { Ok(endpoint.offer_code(servers, ticket).await) }).await? {
        Ok(offered) => Ok(Some(offered)),
        Err(error) => {
            if !global.quiet {
                note(&format!("no short code: {error}"));
            }
            Ok(None)
        }
    }
}

/// What the other end has to add to the command.
pub(super) fn option_of(servers: &[HostPort]) -> String {
    let name = |server: &HostPort| {
        let text = server.to_string();
        let default = format!(":{}", manyway::DEFAULT_PORT);
        let short = text.strip_suffix(&default).filter(|host| !host.starts_with('[')).map(str::to_owned);
        short.unwrap_or(text)
    };
    servers.iter().map(|server| format!(" --rendezvous {}", name(server))).collect()
}

/// Keeps a code until it is void, and returns the reason. Never returns if there is none, or once it was used.
pub(super) async fn keep(code: Option<&mut OfferedCode>) -> CommandError {
    if let Some(code) = code
        && let Err(failure) = code.run().await
    {
        return void(failure);
    }
    std::future::pending().await
}

/// Why a code is void at the end that offered it.
fn void(failure: CodeFailure) -> CommandError {
    let (code, what) = match failure {
        CodeFailure::Wrong => {
            (ExitCode::Authentication, "a wrong code was tried, so this one is void".to_owned())
        }
        CodeFailure::Abandoned => {
            (ExitCode::Authentication, "the code was tried and not completed, so it is void".to_owned())
        }
        CodeFailure::NoAnswer
        | CodeFailure::Full
        | CodeFailure::Lost
        | CodeFailure::Unknown
        | CodeFailure::Used
        | CodeFailure::Expired
        | _ => (ExitCode::Failed, failure.to_string()),
    };
    CommandError::new(code, format!("{what}; nothing was sent: run the same command again for a new one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_word_of_a_code_is_guessed_and_other_names_are_none() {
        assert_eq!(parse("7-guitar-island").unwrap().map(|code| code.number()), Some(7));
        assert!(parse("home").unwrap().is_none() && parse("10-web-prod").unwrap().is_none());
        let error = parse("7-guitar-islnd").unwrap_err();
        assert_eq!(error.code, ExitCode::Usage);
        assert_eq!(error.text, "\"islnd\" occurs in no code; did you mean island?");
    }

    #[tokio::test]
    async fn a_code_without_a_rendezvous_server_says_what_is_missing() {
        let code = "7-guitar-island".parse().unwrap();
        let error = redeem(&GlobalArgs::default(), &code, &[], EndpointOptions::default()).await.unwrap_err();
        assert_eq!(error.code, ExitCode::Usage);
        assert!(error.text.contains("--rendezvous HOST") && !error.text.contains("guitar"), "{error}");
    }

    #[test]
    fn the_option_for_the_other_end_names_the_hosts_as_short_as_they_can_be_read() {
        let servers = ["meet.example.org", "192.0.2.9:5000", "2001:db8::9"].map(|text| text.parse().unwrap());
        let text =
            " --rendezvous meet.example.org --rendezvous 192.0.2.9:5000 --rendezvous [2001:db8::9]:4455";
        assert_eq!(option_of(&servers), text);
    }
}
