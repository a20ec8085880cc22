//! Servers with an ordinary certificate.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::place::{Place, Side};
use crate::common::program::{Running, Server};

/// An authority of the test, as a file of the client's user.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    fn file(&self, place: &Place) -> String {
        let path = place.files(Side::Client).join("authority.pem");
        std::fs::write(&path, self.0.pem()).unwrap();
        path.display().to_string()
    }

    /// Writes a certificate for a name, valid until the first day of a year, and its key.
    fn issue(&self, place: &Place, name: &str, until: i32) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        let files: [PathBuf; 2] = ["chain.pem", "key.pem"].map(|file| place.home(Side::Server).join(file));
        std::fs::create_dir_all(place.home(Side::Server)).unwrap();
        std::fs::write(&files[0], certificate.pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        files.map(|path| path.display().to_string())
    }
}

/// A server with a certificate for `name` that accepts the client's user.
fn serve(place: &Place, authority: &Authority, name: &str) -> Server {
    let [chain, key] = authority.issue(place, name, 2100);
    place.add_ticket("default", &[]);
    place.server_keys(&["add", "client", "laptop", &place.key(Side::Client)]).expect(0);
    place.serve(&["--cert", &chain, "--key", &key])
}

#[test]
fn a_server_is_known_by_its_certificate_and_its_tickets_work_all_the_same() {
    let (place, authority) = (Place::new(), Authority::new());
    let server = serve(&place, &authority, "127.0.0.1");
    let (address, trust) = (server.listening(), authority.file(&place));
    place.client(&["-q", "--trust", &trust, "bench", "-n", "1", &address]).expect(0);
    assert!(!place.home(Side::Client).join("servers.toml").exists(), "no key had to be kept");
    place.client(&["-q", "bench", "-n", "1", &server.ticket]).expect(0);
    place.client(&["-q", "--trust-on-first-use", "bench", "-n", "1", &address]).expect(0);
    // That its key is known from now on does not keep the user from requiring its certificate.
    let other = Authority::new().file(&place);
    place.client(&["--trust", &other, "bench", "-n", "1", &address]).expect(3);
    place.client(&["-q", "bench", "-n", "1", &address]).expect(0);
    let trust = authority.file(&place);
    place.server_keys(&["remove", "laptop"]).expect(0);
    // A ticket that is stored with a name applies beside the certificate.
    place.client(&["keys", "add", "server", "office", &server.ticket]).expect(0);
    place.client(&["-q", "--trust", &trust, "bench", "-n", "1", "office"]).expect(0);
    place
        .client(&["--trust", &trust, "bench", "-n", "1", &address])
        .expect(3)
        .says("error: the server refused this ticket or key: it is revoked");
}

#[test]
fn a_certificate_for_another_name_or_of_an_unknown_authority_is_refused() {
    let (place, authority) = (Place::new(), Authority::new());
    let server = serve(&place, &authority, "server.example");
    let address = server.listening();
    let trust = authority.file(&place);
    place.client(&["--trust", &trust, "bench", "-n", "1", &address]).expect(3).says("127.0.0.1");
    let other = Authority::new().file(&place);
    place.client(&["--trust", &other, "bench", "-n", "1", &address]).expect(3);
    // The system trusts neither.
    let refused = place.client(&["--trust", "system", "bench", "-n", "1", &address]);
    assert!(matches!(refused.code, Some(1 | 3)), "{refused:?}");
    place.client(&["--trust", "none.pem", "bench", "-n", "1", &address]).expect(2).says("none.pem");
}

#[test]
fn a_server_without_a_certificate_is_refused_if_one_is_required() {
    let (place, authority) = (Place::new(), Authority::new());
    let server = place.serve(&[]);
    let (address, trust) = (server.listening(), authority.file(&place));
    place.client(&["--trust", &trust, "bench", "-n", "1", &address]).expect(3).says("certificate");
}

#[test]
fn unusable_certificates_are_refused_at_the_start() {
    let (place, authority) = (Place::new(), Authority::new());
    let [chain, key] = authority.issue(&place, "server.example", 2001);
    let refused = |chain: &str, key: &str| {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--cert", chain, "--key", key];
        Running::start(place.command(Side::Server, &arguments)).end().expect(1)
    };
    refused(&chain, &key).says("expired at 2001-01-01T00:00:00Z");
    refused(&key, &key).says("no certificate");
    refused("none.pem", &key).says("none.pem");
    let own = place.home(Side::Server).join("other.pem");
    std::fs::write(&own, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    refused(&chain, &own.display().to_string()).says("not that of the first certificate");
    let arguments = ["serve", "--cert", &chain];
    Running::start(place.command(Side::Server, &arguments)).end().expect(2).says("--key");
}

#[test]
fn a_renewed_certificate_is_presented_without_a_restart() {
    let (place, authority) = (Place::new(), Authority::new());
    let server = serve(&place, &authority, "old.example");
    let (address, trust) = (server.listening(), authority.file(&place));
    let bench = ["-q", "--trust", &trust, "bench", "-n", "1", &address];
    place.client(&bench).expect(3);
    authority.issue(&place, "127.0.0.1", 2100);
    let start = std::time::Instant::now();
    while place.client(&bench).code != Some(0) {
        assert!(start.elapsed() < crate::common::program::PATIENCE, "{}", server.running.messages());
    }
}
