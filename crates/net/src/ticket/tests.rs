use proptest::prelude::*;

use super::*;

fn host() -> impl Strategy<Value = HostPort> {
    let host = prop_oneof![
        any::<[u8; 4]>().prop_map(|a| Host::Ip(IpAddr::from(a))),
        any::<[u8; 16]>().prop_map(|a| Host::Ip(IpAddr::from(a))),
        "[a-z0-9]{1,20}\\.[a-z]{2,10}".prop_map(|name| Host::name(&name).unwrap()),
    ];
    (host, 1..=u16::MAX).prop_map(|(host, port)| HostPort::new(host, port))
}

fn ticket() -> impl Strategy<Value = Ticket> {
    (any::<[u8; 16]>(), any::<[u8; 16]>(), prop::collection::vec(host(), 1..=Ticket::MAX_HOSTS))
        .prop_map(|(hash, secret, hosts)| Ticket::new(hash, secret, hosts).unwrap())
}

fn sample() -> Ticket {
    let hosts = ["192.0.2.7:4455", "[2001:db8::1]:4455", "example.org:5000"];
    Ticket::new([7; 16], [0xab; 16], hosts.iter().map(|h| h.parse().unwrap()).collect()).unwrap()
}

fn encoded(mut body: Vec<u8>) -> String {
    body.extend_from_slice(&Ticket::checksum(&body));
    format!("mw1{}", BASE32_NOPAD.encode(&body))
}

proptest! {
    #[test]
    fn every_host_with_its_port_survives_its_text_form(host in host()) {
        prop_assert_eq!(&host.to_string().parse::<HostPort>().unwrap(), &host);
        prop_assert_eq!(format!(" {host}\n").parse::<HostPort>().unwrap(), host);
    }

    #[test]
    fn no_text_makes_the_host_parser_panic(text in "\\PC*", port in "[\\[\\]:0-9a-z.%-]{0,60}") {
        for text in [text, port] {
            if let Ok(host) = text.parse::<HostPort>() {
                prop_assert_eq!(host.to_string().parse::<HostPort>(), Ok(host));
            }
            drop(Host::name(&text));
        }
    }

    #[test]
    fn every_ticket_survives_its_text_form(ticket in ticket()) {
        let text = ticket.to_string();
        prop_assert_eq!(&text.parse::<Ticket>().unwrap(), &ticket);
        prop_assert_eq!(format!("\n\t {} ", text.to_uppercase()).parse::<Ticket>().unwrap(), ticket);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*", code in "[a-z2-7]{0,200}") {
        drop(text.parse::<Ticket>());
        drop(format!("mw1{text}").parse::<Ticket>());
        drop(format!("mw1{code}").parse::<Ticket>());
    }

    #[test]
    fn no_intact_body_makes_the_parser_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(encoded(body.clone()).parse::<Ticket>());
        let mut versioned = vec![Ticket::VERSION];
        versioned.extend(body);
        drop(encoded(versioned).parse::<Ticket>());
    }

    #[test]
    fn a_truncated_ticket_is_never_accepted(ticket in ticket(), cut in any::<prop::sample::Index>()) {
        let text = ticket.to_string();
        let kept = &text[..cut.index(text.len())];
        prop_assert!(kept.parse::<Ticket>().is_err());
    }
}

#[test]
fn every_change_of_a_single_character_is_detected() {
    let text = sample().to_string();
    for place in 0..text.len() {
        for replacement in "abcdefghijklmnopqrstuvwxyz0123456789-".chars() {
            if text[place..].starts_with(replacement) {
                continue;
            }
            let mut changed = text.clone();
            changed.replace_range(place..=place, replacement.encode_utf8(&mut [0; 4]));
            assert!(changed.parse::<Ticket>().is_err(), "{changed}");
        }
    }
}

#[test]
fn every_swap_of_adjacent_characters_is_detected() {
    let text = sample().to_string();
    for place in 0..text.len() - 1 {
        let mut bytes = text.clone().into_bytes();
        bytes.swap(place, place + 1);
        let changed = String::from_utf8(bytes).unwrap();
        assert!(changed == text || changed.parse::<Ticket>().is_err(), "{changed}");
    }
}

#[test]
fn the_error_names_the_fault() {
    let text = sample().to_string();
    let parse = |text: &str| text.parse::<Ticket>().unwrap_err();
    assert_eq!(parse(""), TicketError::NotATicket);
    assert_eq!(parse("hello"), TicketError::NotATicket);
    assert_eq!(parse("mw2abcdef"), TicketError::UnknownVersion { version: 2 });
    assert_eq!(parse("mw1"), TicketError::Truncated);
    assert_eq!(parse(&text[..text.len() - 8]), TicketError::Truncated);
    assert_eq!(parse(&text[..text.len() / 2]), TicketError::Truncated);
    let wrong = format!("{}{}", &text[..20], text[20..].replacen(['a', 'b', 'c', 'd'], "e", 1));
    assert_eq!(parse(&wrong), TicketError::Mistyped);
    assert_eq!(
        parse(&text.replacen(&text[9..10], "1", 1)),
        TicketError::Character { character: '1', position: text.find(&text[9..10]).unwrap() + 1 }
    );
    assert_eq!(parse(&encoded(vec![9, 1, 2])), TicketError::UnknownVersion { version: 9 });
    let no_hosts = [vec![1], vec![0; 33]].concat();
    assert_eq!(parse(&encoded(no_hosts)), TicketError::Malformed);
}

#[test]
fn a_ticket_holds_one_to_sixteen_addresses() {
    let host: HostPort = "192.0.2.7".parse().unwrap();
    assert_eq!(Ticket::new([0; 16], [0; 16], vec![]), Err(TicketError::Hosts { count: 0 }));
    assert!(Ticket::new([0; 16], [0; 16], vec![host.clone(); 16]).is_ok());
    assert_eq!(Ticket::new([0; 16], [0; 16], vec![host; 17]), Err(TicketError::Hosts { count: 17 }));
}

#[test]
fn debug_output_hides_the_secret() {
    let shown = format!("{:?} {:#?}", sample(), sample());
    assert!(!shown.contains("abab") && !shown.contains("171") && !shown.contains("[7"), "{shown}");
    assert!(shown.contains("hidden"));
}
