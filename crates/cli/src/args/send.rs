//! `manyway send`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use manyway_transfer::RelativePath;

use super::TransferArgs;
use crate::command::target::{is_ticket, names_ticket};

/// Arguments of `send`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, override_usage = "manyway send [OPTIONS] <FILE>... [TICKET]")]
pub struct SendArgs {
    /// Files and directories ("-" is standard input), then the ticket or @FILE containing it; without one they are
    /// offered for `manyway get`
    #[arg(required = true, value_names = ["FILE"])]
    arguments: Vec<OsString>,
    /// Send to this server: a name, @FILE or HOST
    #[arg(long, value_name = "SERVER")]
    to: Option<String>,
    /// Store it as NAME; only with one argument
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<RelativePath>,
    /// Send on this interface or address first
    #[arg(long, value_name = "IF|ADDR")]
    pub primary: Option<String>,
    /// What all transfers understand.
    #[command(flatten)]
    pub transfer: TransferArgs,
}

/// What is sent and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// Files and directories, at least one.
    pub files: Vec<PathBuf>,
    /// The server, as the user named it; `None`: whoever has the code that is printed.
    pub server: Option<String>,
}

impl SendArgs {
    /// Separates the server from the files: it is named by `--to`, or it is the last argument, if that is a ticket, or
    /// no file and not the only argument.
    ///
    /// # Errors
    /// There is no file; the text says so.
    pub fn recipient(&self) -> Result<Recipient, String> {
        self.recipient_among(|path| path == Path::new("-") || path.symlink_metadata().is_ok())
    }

    /// Whether the files are offered here to whoever has the code.
    pub fn offers(&self) -> bool {
        self.recipient().is_ok_and(|recipient| recipient.server.is_none())
    }

    fn recipient_among(&self, exists: impl Fn(&Path) -> bool) -> Result<Recipient, String> {
        let paths = |arguments: &[OsString]| arguments.iter().map(PathBuf::from).collect();
        // A file may have such a name.
        let is_server = |text: &str| is_ticket(text) || names_ticket(text) && !exists(Path::new(text));
        if let Some(to) = &self.to {
            let is_named = |file: &OsString| file.to_str().is_some_and(is_server) && !exists(Path::new(file));
            if self.arguments.iter().any(is_named) {
                return Err(format!("two servers are named: --to {to} and a ticket"));
            }
            return Ok(Recipient { files: paths(&self.arguments), server: self.to.clone() });
        }
        let Some((last, files)) = self.arguments.split_last() else {
            return Err("nothing to send".to_owned());
        };
        let is_misplaced = |file: &OsString| file.to_str().is_some_and(is_ticket) && !exists(Path::new(file));
        if !last.to_str().is_some_and(is_server) && files.iter().any(is_misplaced) {
            return Err("the ticket comes last: manyway send FILE… TICKET".to_owned());
        }
        match last.to_str() {
            Some(text) if is_server(text) && files.is_empty() => Err("no file before the ticket".to_owned()),
            Some(text) if is_server(text) || !files.is_empty() && !exists(Path::new(last)) => {
                Ok(Recipient { files: paths(files), server: Some(text.to_owned()) })
            }
            Some(_) | None => Ok(Recipient { files: paths(&self.arguments), server: None }),
        }
    }
}

fn parse_name(text: &str) -> Result<RelativePath, String> {
    RelativePath::parse(text).map_err(|error| error.to_string())
}

const EXAMPLES: &str = "\
Examples:
  manyway send film.mp4 @home.ticket   to a server, with its ticket in a file
  manyway send photos/ notes.txt home  to a saved server
  tar c photos | manyway send - --name photos.tar home
  manyway send film.mp4                prints a code (short: --rendezvous HOST)
  manyway send -I eth0 -I wwan0,role=backup film.mp4 home

To resume after an interruption run the same command again. What an interrupted transfer leaves behind is called \
.NAME.manyway-part.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_last_argument_is_the_server_if_it_is_a_ticket_or_no_file() {
        let recipient = parse(&["a", "mw1note", "mw1xyz"]).unwrap();
        assert_eq!(recipient.files, [PathBuf::from("a"), PathBuf::from("mw1note")]);
        assert_eq!(recipient.server.as_deref(), Some("mw1xyz"));
        assert!(parse(&["mw1xyz"]).unwrap_err().contains("no file"));
        assert!(parse(&["mw1xyz", "a"]).unwrap_err().contains("comes last"));
        assert_eq!(parse(&["a", "host:4455"]).unwrap().server.as_deref(), Some("host:4455"));
    }

    #[test]
    fn without_a_server_the_files_are_offered() {
        for files in [&["a"][..], &["a", "b"], &["none"], &["mw1.txt"]] {
            let recipient = parse(files).unwrap();
            assert_eq!((recipient.files.len(), recipient.server), (files.len(), None));
        }
    }

    #[test]
    fn a_server_that_is_named_by_its_option_leaves_all_arguments_files() {
        let recipient = parse(&["--to", "home", "a", "b"]).unwrap();
        assert_eq!((recipient.files.len(), recipient.server.as_deref()), (2, Some("home")));
        for ticket in ["mw1xyz", "@home.ticket"] {
            let error = parse(&["--to", "home", "a", ticket]).unwrap_err();
            assert_eq!(error, "two servers are named: --to home and a ticket");
        }
    }

    fn parse(arguments: &[&str]) -> Result<Recipient, String> {
        let cli = Cli::try_parse_from(["manyway", "send"].iter().chain(arguments));
        let Command::Send(send) = cli.map_err(|error| error.to_string())?.command else {
            panic!("another command")
        };
        send.recipient_among(|path| ["a", "b"].contains(&path.to_str().unwrap()))
    }
}
