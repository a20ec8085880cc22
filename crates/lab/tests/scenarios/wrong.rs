use std::fmt::Write as _;

use super::{LINKS, parse};

/// Invalid texts, one to a paragraph; appended to the two links if it begins with a blank.
const WRONG: [&str; 66] = [
    "",
    "[links.wifi\n",
    "[links]\n",
    "[links.wifi]\nraet = '20Mbit'\n",
    "[links.wifi]\nrate = 'fast'\n",
    "[links.wifi]\nrate = 20\n",
    "[links.wifi]\nrate = '1kbit'\n",
    "[links.wifi]\nrate = '1M'\ntrace = 'x'\n",
    "[links.wifi]\ntrace = 'x'\n",
    "[links.wifi]\nrate = '1M'\nrtt = '5'\ndelay = '3ms'\n",
    "[links.wifi]\nrtt = '5 parsecs'\n",
    "[links.wifi]\nrtt = '90s'\n",
    "[links.wifi]\njitter = { hold = '1s' }\n",
    "[links.wifi]\njitter = { spread = '1ms', order = 'mixed' }\n",
    "[links.wifi]\nqueue = '100'\n",
    "[links.wifi]\nqueue = { limit = '1s', target = '5ms' }\n",
    "[links.wifi]\nloss = '101%'\n",
    "[links.wifi]\nloss = { share = '1%' }\n",
    "[links.wifi]\nloss = { share = '90%', burst = 2 }\n",
    "[links.wifi]\nloss = { to_bad = '1%' }\n",
    "[links.wifi]\nmtu = 68\n",
    "[links.wifi]\nup = { rtt = '3ms' }\n",
    "[links.the-wireless-network]\n",
    "[links.wifi]\nserver = 'c'\n[server.d]\n",
    "[links.wifi]\n[links.lte]\n[server.c]\n[server.d]\n",
    "[links.wifi]\n[client.wlan]\n",
    "[links.wifi]\n[client.wifi]\naddresses = ['10.0.0.300']\n",
    "[links.wifi]\n[client.wifi]\naddresses = ['10.0.0.3']\n[server.x]\naddresses = ['10.0.0.3']\n",
    "[links.wifi]\n[server.x]\naddresses = ['2001:db8::3']\n",
    "[links.wifi]\n[server.x]\nnat = {}\n",
    "[links.wifi]\n[server.x]\ncost = 1\n",
    "[links.wifi]\n[client.wifi]\ncost = 256\n",
    "[links.first]\n[links.second]\nclient = 'first'\n",
    "[links.a]\nroutes = 3\n",
    " routes = [{ client = 'x', links = ['wifi', 'ltt'] }]\n",
    " [[traffic]]\nbulk = 'sideways'\n",
    " [[traffic]]\nsize = '1MiB'\n",
    " [[traffic]]\nmessages = 'up'\nsize = 15\ninterval = '1s'\n",
    " [[traffic]]\nmessages = 'up'\nsize = '65KiB'\ninterval = '1s'\n",
    " [[traffic]]\nbulk = 'up'\nlifetime = '200ms'\n",
    " [[traffic]]\nbulk = 'up'\ncount = 3\n",
    " [[traffic]]\nby = 'tcp-bbr'\nroute = 'wifi'\n",
    " [[traffic]]\nby = 'tcp-reno'\n",
    " [[traffic]]\nby = 'tcp-reno'\nroute = 'wi-fi'\n",
    " [[traffic]]\nby = 'tcp-reno'\nroute = 'wifi'\nrate = '1M'\n",
    " [[traffic]]\nby = 'udp'\nroute = 'wifi'\n",
    " [[traffic]]\nby = 'tcp-cubic'\nroute = 'wifi'\ncount = 101\n",
    " [[traffic]]\nby = 'tcp-cubic'\nroute = 'wifi'\npacket = 1501\n",
    " [[traffic]]\nby = 'tcp-cubic'\nroute = 'wifi'\nat = '15s'\n",
    " [[traffic]]\nby = 'tcp-cubic'\nroute = 'wifi'\nat = '10s'\nfor = '6s'\n",
    " [[traffic]]\nby = 'tcp-cubic'\nroute = 'wifi'\ninterval = '6s'\n",
    "[links.a]\n[damage]\nshare = '1%'\n[[traffic]]\nby = 'tcp-cubic'\n",
    "[links.wifi]\n[client.wifi]\nothers = true\n",
    " [[events]]\nat = '5s'\n",
    " [[events]]\ncut = 'wifi'\n",
    " [[events]]\nat = '16s'\ncut = 'wifi'\n",
    " [[events]]\nat = '5s'\ncut = 'wi-fi'\n",
    " [[events]]\nat = '5s'\ncut = 'wifi'\nrestore = 'lte'\n",
    " [[events]]\nat = '5s'\ncut = 'wifi'\nrate = '5M'\n",
    " [[events]]\nat = '5s'\nset = 'wifi'\n",
    " [[events]]\nat = '5s'\nrebind = 'wifi'\n",
    " [[events]]\nat = '5s'\ncut = 'wifi'\nfor = '2s'\nrepeat = { every = '1s', times = 2 }\n",
    "end = 'soon'\n[links.a]\n",
    "end = { no_path = '1h' }\n[links.a]\n",
    "[links.a]\n[damage]\npart = '1MB'\n",
    "[links.a]\n[damage]\npart = '11MB'\nof = '10MB'\n",
];

#[test]
fn every_wrong_file_is_refused_with_line_and_field() {
    let mut all = String::new();
    for wrong in WRONG {
        // Top-level keys must precede the sections.
        let text = match wrong.strip_prefix(' ') {
            Some(rest) if rest.starts_with('[') => format!("{LINKS}{rest}"),
            Some(rest) => format!("{rest}{LINKS}"),
            None => wrong.to_owned(),
        };
        let error = parse(&text).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("accepted:\n{text}"));
        assert!(error.starts_with("mine.toml, line "), "{error}");
        writeln!(all, "{}\n    {error}\n", wrong.trim().replace('\n', " | ")).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_scenario_has_at_most_32_interfaces_and_10_000_events() {
    let links = |number: usize| (0..number).map(|place| format!("[links.l{place}]\n")).collect::<String>();
    assert_eq!(parse(&links(32)).unwrap().client.len(), 32);
    let error = parse(&links(33)).unwrap_err().to_string();
    assert_eq!(error, "mine.toml, line 33, links.l32: a host has at most 32 interfaces");
    let event = "[[events]]\nat = '1s'\ncut = 'l0'\nrepeat = { every = '1ms', times = 5001 }\n";
    let error = parse(&format!("{}{event}{event}", links(1))).unwrap_err().to_string();
    assert_eq!(error, "mine.toml, line 6, events[2]: more than 10000 events");
}
