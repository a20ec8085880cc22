//! The names of paths, the same on every screen: the interface, or the peer's host, and what tells a path from others.

/// What a path can be told by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traits {
    /// The interface, or the peer's host; in the demo the link.
    pub base: String,
    /// What carries it: `udp` or `tcp`.
    pub carrier: String,
    /// The local address.
    pub local: String,
    /// The peer's host.
    pub remote: String,
}

/// The host in the text of an address and port.
pub fn host_of(text: &str) -> &str {
    match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => text.rsplit_once(':').map_or(text, |(host, _)| host),
    }
}

/// A name for each of these paths, all different. Of what tells paths with the same interface or host apart, a name has
/// the first that suffices: carrier, local address, the peer's host, a number.
pub fn distinct(paths: &[Traits]) -> Vec<String> {
    paths.iter().enumerate().map(|(place, path)| name_among(paths, place, path)).collect()
}

fn name_among(paths: &[Traits], place: usize, path: &Traits) -> String {
    let mut name = path.base.clone();
    let mut twins: Vec<_> = paths.iter().enumerate().filter(|(_, other)| other.base == path.base).collect();
    let traits: [fn(&Traits) -> &str; 3] = [|path| &path.carrier, |path| &path.local, |path| &path.remote];
    let mut has_carrier = false;
    for value in traits {
        let all = twins.len();
        twins.retain(|(_, other)| value(other) == value(path));
        if twins.len() < all {
            name = format!("{name} {}", value(path));
            has_carrier |= value(path) == path.carrier;
        }
    }
    if twins.len() > 1 {
        let before = twins.iter().filter(|(other, _)| *other < place).count();
        let carrier = if has_carrier { String::new() } else { format!(" {}", path.carrier) };
        name = format!("{name}{carrier} {}", before + 1);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[[&str; 4]]) -> Vec<String> {
        let traits = |[base, carrier, local, remote]: &[&str; 4]| Traits {
            base: (*base).to_owned(),
            carrier: (*carrier).to_owned(),
            local: (*local).to_owned(),
            remote: (*remote).to_owned(),
        };
        distinct(&paths.iter().map(traits).collect::<Vec<_>>())
    }

    #[test]
    fn a_name_has_what_tells_its_path_from_the_others() {
        let (near, far) = ("10.0.0.2", "192.0.2.1");
        assert_eq!(names(&[["wifi0", "udp", near, far], ["lte0", "tcp", near, far]]), ["wifi0", "lte0"]);
        let carriers = [["wifi0", "udp", near, far], ["wifi0", "tcp", near, far], ["lte0", "udp", near, far]];
        assert_eq!(names(&carriers), ["wifi0 udp", "wifi0 tcp", "lte0"]);
        assert_eq!(names(&[["wifi0", "tcp", near, far]; 3]), ["wifi0 tcp 1", "wifi0 tcp 2", "wifi0 tcp 3"]);
        let mixed = [["wifi0", "udp", near, far], ["wifi0", "tcp", near, far], ["wifi0", "tcp", near, far]];
        assert_eq!(names(&mixed), ["wifi0 udp", "wifi0 tcp 1", "wifi0 tcp 2"]);
        let locals = [["wifi0", "udp", near, far], ["wifi0", "udp", "2001:db8::2", "2001:db8::1"]];
        assert_eq!(names(&locals), ["wifi0 10.0.0.2", "wifi0 2001:db8::2"]);
        let remotes = [["wifi0", "udp", near, far], ["wifi0", "udp", near, "192.0.2.9"]];
        assert_eq!(names(&remotes), ["wifi0 192.0.2.1", "wifi0 192.0.2.9"]);
    }

    #[test]
    fn the_host_of_an_address_has_neither_port_nor_brackets() {
        assert_eq!(
            [host_of("192.0.2.1:4455"), host_of("[fe80::1%lo]:4455"), host_of("[::1]:9")],
            ["192.0.2.1", "fe80::1%lo", "::1"]
        );
    }
}
