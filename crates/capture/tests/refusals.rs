//! Systems that refuse the namespace say why, and what to do.

use manyway_capture::CaptureError;
use manyway_sim::skipped::skip;

use crate::common::{User, is_root};

#[tokio::test]
async fn a_refusal_names_its_cause() {
    if !is_root() {
        return skip("only root can make a system that refuses");
    }
    for (prepare, part) in [
        ("mknod -m 600 /mnt/tun c 10 200; mount --bind /mnt/tun /dev/net/tun;", "chmod 666 /dev/net/tun"),
        ("mount -t tmpfs none /dev/net;", "modprobe tun"),
        (
            "exec unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; exec /mnt/program \"$@\"' sh \"$@\";",
            "user.max_user_namespaces is 0",
        ),
        (
            "mount -t tmpfs none /etc; mknod -m 666 /mnt/tun c 10 200; mount --bind /mnt/tun /dev/net/tun;",
            "touch /etc/resolv.conf",
        ),
    ] {
        match User::After(prepare).prepare(&["true"]).await {
            Err(CaptureError::Refused(text)) => assert!(text.contains(part), "{part} in {text:?}"),
            other => panic!("{prepare}: {other:?}"),
        }
    }
}
