//! Zones of link-local addresses: interfaces of this host by name and by index (RFC 4007, section 11).

/// The index of the interface with this name.
#[cfg(target_os = "linux")]
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    if_addrs::get_if_addrs().ok()?.into_iter().find(|found| found.name == name)?.index
}

/// The name of the interface with this index.
#[cfg(target_os = "linux")]
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let name = nix::net::if_::if_indextoname(index).ok()?.into_string().ok()?;
    // For an index that does not exist, such as 0, the call gives an empty name.
    (!name.is_empty()).then_some(name)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let found = if_addrs::get_if_addrs().ok()?.into_iter().find(|found| found.index == Some(index))?;
    Some(found.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_without_an_interface_has_no_name() {
        assert_eq!([interface_name(0), interface_name(u32::MAX)], [None, None]);
    }
}
