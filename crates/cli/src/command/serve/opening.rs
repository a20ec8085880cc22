//! The first lines of a server.

use crate::output::opening::Opening;

/// A server that listens.
#[derive(Debug)]
pub(super) struct Serving<'a> {
    pub(super) directory: &'a str,
    pub(super) is_read_only: bool,
    /// Its addresses of UDP.
    pub(super) listening: &'a [String],
    /// Whether it listens on the same ports of TCP.
    pub(super) has_tcp: bool,
    pub(super) tls_port: Option<u16>,
    /// How to let clients through a firewall of this host.
    pub(super) firewall: String,
}

/// Who may connect.
#[derive(Debug)]
pub(super) enum Clients<'a> {
    /// The holders of the default ticket. It stays valid after a restart if `is_kept`.
    OfTicket { ticket: &'a str, is_kept: bool },
    /// The holders of `number` named tickets and keys. They know the server by its key.
    Named { number: usize, key: &'a str },
}

impl Serving<'_> {
    /// The lines; only the ticket goes to standard output.
    pub(super) fn opening(&self, clients: &Clients<'_>) -> Opening {
        let first = Opening::default().message(self.place("on UDP")).message(self.firewall.clone());
        match clients {
            Clients::OfTicket { ticket, is_kept } => {
                let send = if self.is_read_only { "" } else { "`manyway send FILE… TICKET`, " };
                let validity = if *is_kept {
                    "Anyone with this ticket can connect; `manyway keys remove default` revokes it:"
                } else {
                    "Anyone with this ticket can connect until this server ends:"
                };
                first.message(validity).data(*ticket).message(format!(
                    "On the other side: {send}`manyway get TICKET PATH…`, `manyway play TICKET`, `manyway bench TICKET`"
                ))
            }
            Clients::Named { number, key } => first
                .message(match number {
                    1 => "1 named ticket or client may connect; `manyway keys list` shows it".to_owned(),
                    _ => format!(
                        "{number} named tickets and clients may connect; `manyway keys list` shows them"
                    ),
                })
                .message(format!("the key of this server is {key}")),
        }
    }

    /// The lines of a server that takes MMSP/1, with a warning; only its addresses go to standard output.
    pub(super) fn opening_in_clear(&self, warning: String, hosts: &[String]) -> Opening {
        let first = Opening::default()
            .message(self.place("over MMSP/1 on UDP"))
            .message(self.firewall.clone())
            .message(warning)
            .message("On the other side: `manyway get --wire mmsp1 HOST PATH…`, where HOST is one of:");
        hosts.iter().fold(first, Opening::data)
    }

    fn place(&self, carrier: &str) -> String {
        let access = if self.is_read_only { "for reading" } else { "for reading and writing" };
        let tcp = if self.has_tcp { " and the same TCP ports" } else { "" };
        let tls = self.tls_port.map_or_else(String::new, |port| format!(", TCP within TLS on {port}"));
        format!("serving {} {access} {carrier} {}{tcp}{tls}", self.directory, self.listening.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::clear::warning;
    use super::*;
    use crate::args::ServeArgs;
    use crate::command::advice::firewall_of;
    use manyway::AddressFilter;

    #[test]
    fn the_first_lines_of_a_server_fit_every_terminal() {
        let listening = ["0.0.0.0:4455", "[::]:4455"].map(str::to_owned);
        let serving = || Serving {
            directory: "incoming",
            is_read_only: false,
            listening: &listening,
            has_tcp: true,
            tls_port: Some(443),
            firewall: firewall_of(4455, true, Some(443)),
        };
        let reading = Serving {
            is_read_only: true,
            has_tcp: false,
            tls_port: None,
            firewall: firewall_of(4455, false, None),
            ..serving()
        };
        let ticket = "mw1aff5vv3wp733jgveanxzkisx5rtdphb7o5mbfnytpzpw5ov2opbjuayebjgqcapgbycauticahta4bakjubqdzqoddnredq";
        let key = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
        let from: AddressFilter = "192.168.1.0/24".parse().unwrap();
        let hosts = ["192.168.1.7:4455".to_owned()];
        for width in [80, 120] {
            let screens = [
                serving().opening(&Clients::OfTicket { ticket, is_kept: true }),
                reading.opening(&Clients::OfTicket { ticket, is_kept: false }),
                serving().opening(&Clients::Named { number: 2, key }),
                reading.opening_in_clear(
                    warning(&ServeArgs { read_only: true, ..ServeArgs::default() }, &from),
                    &hosts,
                ),
            ];
            let screens = screens.map(|opening| opening.screen(width)).join("\n\n");
            insta::assert_snapshot!(format!("serve_{width}"), screens);
        }
    }
}
