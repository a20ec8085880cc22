//! What a command cannot do or see.

use manyway_sim::skipped::skip;

use crate::common::{User, is_root};

/// Devices that some kernels make in every namespace as soon as a module is loaded. They are down, and only root of the
/// namespace can change that.
const FALLBACK_TUNNELS: [&str; 9] =
    ["tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"];

#[tokio::test]
async fn there_is_no_device_but_lo_and_the_tun_device_and_no_raw_socket() {
    let script = "$PROGRAM raw; $PROGRAM packet; sed -n 's/^ *\\([^ ]*\\):.*/\\1/p' /proc/net/dev";
    let Some(inside) = User::Ordinary.run(script).await else { return };
    let (_, text) = inside.end().await;
    let mut lines = text.lines();
    for _ in ["raw", "packet"] {
        assert!(lines.next().unwrap().contains("Operation not permitted"), "{text}");
    }
    let mut devices: Vec<_> = lines.filter(|name| !FALLBACK_TUNNELS.contains(name)).collect();
    devices.sort_unstable();
    assert_eq!(devices, ["lo", "manyway0"]);
}

#[tokio::test]
async fn a_program_whose_file_has_capabilities_runs_without_them() {
    if !is_root() || std::process::Command::new("setcap").arg("-h").output().is_err() {
        return skip("only root can give a file capabilities, by setcap");
    }
    let user = User::After(
        "mknod -m 666 /mnt/tun c 10 200; mount --bind /mnt/tun /dev/net/tun; \
         cp /mnt/program /mnt/capable; setcap cap_net_raw+ep /mnt/capable;",
    );
    let Some(inside) = user.run("/mnt/capable raw").await else { return };
    let (status, text) = inside.end().await;
    assert!(status == 1 && text.contains("Operation not permitted"), "{status} {text}");
}

/// Prints who runs, and what privileges it has and may gain.
const PRIVILEGES: &str = "id -u; sed -n 's/^\\(Cap[IPEA].*\\|NoNew.*\\):\\t*/\\1 /p' /proc/self/status";

fn without_privileges(user: &str) -> String {
    let none = "0000000000000000";
    format!("{user}\nCapInh {none}\nCapPrm {none}\nCapEff {none}\nCapAmb {none}\nNoNewPrivs 1\n")
}

#[tokio::test]
async fn a_command_has_its_user_and_no_capability() {
    let Some(inside) = User::Ordinary.run(PRIVILEGES).await else { return };
    let user = if is_root() { "65534".to_owned() } else { rustix::process::geteuid().as_raw().to_string() };
    assert_eq!(inside.end().await, (0, without_privileges(&user)));
}

#[tokio::test]
async fn root_has_no_capability_in_the_namespace_either() {
    if !is_root() {
        return skip("only root can be root");
    }
    let script = format!(
        // The parent of the command is this test, outside.
        "{PRIVILEGES}; readlink /proc/$$/ns/net | cut -c 1-4; readlink /proc/$PPID/ns/net || echo hidden; \
         ip link set manyway0 down || echo up; mount -t tmpfs none /mnt || echo unmounted; \
         umount /etc/resolv.conf || echo replaced"
    );
    let Some(inside) = User::Root.run(&script).await else { return };
    let (_, text) = inside.end().await;
    let text = text.strip_prefix(&without_privileges("0")).unwrap_or_else(|| panic!("{text}"));
    // Other lines are messages of the programs.
    let found: Vec<_> = text.lines().filter(|line| !line.contains(' ')).collect();
    assert_eq!(found, ["net:", "hidden", "up", "unmounted", "replaced"], "{text}");
}

#[tokio::test]
async fn resolvers_outside_are_hidden_and_resolv_conf_names_ours() {
    if !is_root() {
        return skip("only root can pretend that daemons run");
    }
    for link in [
        // A link to what systemd-resolved or NetworkManager has written, or a file.
        "ln -s ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf;",
        "mkdir /run/NetworkManager; echo nameserver 192.0.2.1 >/run/NetworkManager/resolv.conf; \
         ln -s /run/NetworkManager/resolv.conf /etc/resolv.conf;",
        "echo nameserver 192.0.2.1 >/etc/resolv.conf;",
    ] {
        let prepare = format!(
            "mknod -m 666 /mnt/tun c 10 200; mount --bind /mnt/tun /dev/net/tun; \
             mount -t tmpfs none /run; mkdir -p /run/nscd /run/systemd/resolve /run/avahi-daemon; \
             touch /run/nscd/socket /run/avahi-daemon/socket /run/systemd/resolve/io.systemd.Resolve; \
             echo nameserver 127.0.0.53 >/run/systemd/resolve/stub-resolv.conf; \
             mount -t tmpfs none /etc; {link}"
        );
        let user = User::After(prepare.leak());
        let script =
            "cd /run; echo nscd/* avahi-daemon/* systemd/resolve/io*; grep nameserver /etc/resolv.conf";
        let Some(inside) = user.run(script).await else { return };
        // The shell leaves a pattern as it is if no file matches.
        let expected = "nscd/* avahi-daemon/* systemd/resolve/io*\nnameserver 198.18.0.2\n";
        assert_eq!(inside.end().await, (0, expected.to_owned()), "{link}");
    }
    // Nothing of that is left outside.
    let outside = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    assert!(!outside.contains("198.18.0.2"), "{outside}");
}
