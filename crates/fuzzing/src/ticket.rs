//! Tickets, host names and addresses with ports, as users paste them.

use manyway::{Host, HostPort, Ticket};

use crate::script::Script;

/// Reads the input as text of each kind, and as the fields of a ticket.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    parse(&text);
    // Surrounding spaces, capitals and line ends do not matter.
    let printed = build(&mut Script::new(data)).to_string();
    parse(&printed);
    assert_eq!(printed.parse::<Ticket>(), format!(" {}\n", printed.to_ascii_uppercase()).parse::<Ticket>());
    damage(&printed, data);
}

fn parse(text: &str) {
    match text.parse::<Ticket>() {
        Ok(ticket) => {
            assert!((1..=Ticket::MAX_HOSTS).contains(&ticket.hosts().len()));
            let printed = ticket.to_string();
            assert_eq!(printed, text.trim().to_ascii_lowercase(), "a ticket has one text");
            assert_eq!(printed.parse::<Ticket>().as_ref(), Ok(&ticket));
            let shown = format!("{ticket:?}");
            assert!(shown.contains("hidden"));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match text.parse::<HostPort>() {
        Ok(host) => assert_eq!(host.to_string().parse::<HostPort>().as_ref(), Ok(&host), "{text:?}"),
        Err(error) => assert!(error.to_string().len() < 1000, "{text:?}"),
    }
    if let Ok(Host::Name(name)) = Host::name(text) {
        assert!(!name.is_empty() && name.len() <= 253);
        assert_eq!(Host::name(&name), Ok(Host::Name(name.clone())));
    }
}

/// A ticket of any content.
fn build(script: &mut Script<'_>) -> Ticket {
    let key = [script.u8(); 16];
    let secret = [script.u8(); 16];
    let mut hosts = Vec::new();
    while let Some(kind) = script.step().filter(|_| hosts.len() < Ticket::MAX_HOSTS) {
        let host = match kind % 3 {
            0 => Some(Host::Ip(script.u32().to_be_bytes().into())),
            1 => Some(Host::Ip(
                (u128::from(script.u64()) << 64 | u128::from(script.u64())).to_be_bytes().into(),
            )),
            _ => Host::name(&String::from_utf8_lossy(script.bytes())).ok(),
        };
        hosts.extend(host.map(|host| HostPort::new(host, script.u16())));
    }
    if hosts.is_empty() {
        hosts.push(HostPort::new(Host::Ip([127, 0, 0, 1].into()), 4455));
    }
    let ticket = Ticket::new(key, secret, hosts.clone()).unwrap();
    assert_eq!((ticket.server_key_hash(), ticket.secret(), ticket.hosts()), (&key, &secret, &hosts[..]));
    assert_eq!(ticket.to_string().parse(), Ok(ticket.clone()));
    ticket
}

/// One wrong character is always detected.
fn damage(printed: &str, data: &[u8]) {
    let mut script = Script::new(data);
    let (at, with) = (usize::from(script.u16()), char::from(script.u8()));
    let at = at % printed.len();
    let changed: String =
        printed.chars().enumerate().map(|(place, old)| if place == at { with } else { old }).collect();
    let same = changed.trim().eq_ignore_ascii_case(printed);
    assert!(same || changed.parse::<Ticket>().is_err(), "{changed}");
}
