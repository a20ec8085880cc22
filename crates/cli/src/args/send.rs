//! `manyway send`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `send`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, override_usage = "manyway send [OPTIONS] <FILE>... <TICKET>")]
pub struct SendArgs {
    /// Files and directories, then the ticket that `manyway serve` printed
    #[arg(required = true, num_args = 2.., value_names = ["FILE", "TICKET"])]
    arguments: Vec<OsString>,
}

/// What is sent and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// Files and directories, at least one.
    pub files: Vec<PathBuf>,
    /// The ticket, not yet looked at but for its beginning.
    pub ticket: String,
}

impl SendArgs {
    /// Separates the ticket from the files.
    ///
    /// # Errors
    /// The last argument is no ticket; the text says so.
    pub fn recipient(&self) -> Result<Recipient, String> {
        let Some((last, files)) = self.arguments.split_last() else {
            return Err("nothing to send".to_owned());
        };
        match last.to_str().filter(|text| text.starts_with(TICKET)) {
            Some(ticket) if !files.is_empty() => {
                Ok(Recipient { files: files.iter().map(PathBuf::from).collect(), ticket: ticket.to_owned() })
            }
            Some(_) => Err("no file before the ticket".to_owned()),
            None => Err(format!(
                "the last argument must be a ticket ({TICKET}…), as `manyway serve` prints it, not {}",
                last.display()
            )),
        }
    }
}

/// How every ticket begins.
const TICKET: &str = "mw1";

const EXAMPLES: &str = "\
Examples:
  manyway send film.mp4 mw1…
  manyway send photos/ notes.txt mw1…
  manyway send -I eth0 -I wwan0,role=backup film.mp4 mw1…";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_last_argument_is_the_ticket() {
        let recipient = parse(&["a", "mw1note", "mw1xyz"]).unwrap();
        assert_eq!(recipient.files, [PathBuf::from("a"), PathBuf::from("mw1note")]);
        assert_eq!(recipient.ticket, "mw1xyz");
        assert!(parse(&["a", "b"]).unwrap_err().contains("must be a ticket"));
        assert!(Cli::try_parse_from(["manyway", "send", "mw1xyz"]).is_err());
    }

    fn parse(arguments: &[&str]) -> Result<Recipient, String> {
        let cli = Cli::try_parse_from(["manyway", "send"].iter().chain(arguments));
        let Command::Send(send) = cli.map_err(|error| error.to_string())?.command else {
            panic!("another command")
        };
        send.recipient()
    }
}
