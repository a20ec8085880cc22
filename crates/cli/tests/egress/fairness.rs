//! How clients of a server, and the connections of one client, share what they use together.

use std::process::Stdio;

use super::hosts::{HOST, WEB, serve_web};
use crate::common::lab::{Family, Lab};
use crate::common::program::{Server, have};

/// Bytes that downloads bring in eight seconds, by the ports of their proxies.
fn bytes_of_downloads(lab: &Lab, ports: &[u16]) -> Vec<f64> {
    let start = |port: &u16| {
        let mut curl = lab.client.command("curl");
        curl.args(["-s", "-m", "8", "--noproxy", "", "-o", "/dev/null", "-w", "%{size_download}", "-x"]);
        curl.arg(format!("socks5h://127.0.0.1:{port}")).arg(format!("http://{HOST}:{WEB}/1000000000"));
        curl.stdout(Stdio::piped()).spawn().unwrap()
    };
    #[expect(clippy::needless_collect, reason = "all run before the first is waited for")]
    let running: Vec<_> = ports.iter().map(start).collect();
    let bytes = running.into_iter().map(|curl| curl.wait_with_output().unwrap().stdout);
    bytes.map(|text| String::from_utf8(text).unwrap().parse().unwrap()).collect()
}

#[test]
fn two_clients_of_a_server_share_its_links_and_the_connections_of_one_share_its_part() {
    let Some(lab) = Lab::start(2, Family::V4).filter(|_| have(&[("curl", "-V")])) else { return };
    lab.limit(1, 20);
    lab.limit(2, 20);
    serve_web(&lab);
    let home = lab.there().join("home");
    let mut serving = lab.serving(
        &lab.there(),
        &["--egress", "--allow", HOST, "--advertise", "10.7.1.2", "--advertise", "10.7.2.2"],
    );
    serving.env("MANYWAY_HOME", &home);
    let server = Server::start(serving);
    let mut keys = lab.server.command(crate::common::program::MANYWAY);
    let made =
        keys.args(["keys", "add", "ticket", "second", "-q"]).env("MANYWAY_HOME", &home).output().unwrap();
    let second = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let proxies =
        [(&server.ticket, "127.0.0.1:1080"), (&second, "127.0.0.1:1081")].map(|(ticket, listen)| {
            let proxy = lab.start_client(&["proxy", ticket, "--listen", listen]);
            proxy.wait_until("the proxy", || proxy.printed().contains("socks5h://"));
            proxy
        });

    // A busy machine may hold up any of the programs.
    let mut tries = Vec::new();
    while tries.len() < 3 {
        let bytes = bytes_of_downloads(&lab, &[1080, 1081, 1081, 1081]);
        let (of_first, of_second) = (bytes[0], bytes[1] + bytes[2] + bytes[3]);
        let has_third = of_first.min(of_second) >= (of_first + of_second) / 3.0;
        let is_shared = bytes[1..].iter().all(|bytes| *bytes >= of_second / 3.0 / 2.0);
        // Both links together: 40 MB.
        let is_full = of_first + of_second > 25e6;
        if has_third && is_shared && is_full {
            return;
        }
        tries.push(bytes);
    }
    panic!("{tries:?} {}", proxies.map(|proxy| proxy.messages()).join("\n"));
}
