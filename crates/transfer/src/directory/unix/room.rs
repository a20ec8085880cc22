//! Free space, and the files that occupy it.

use rustix::fs::{AtFlags, Dir, FileType};

use super::{Directory, Missing, failure, number};
use crate::directory::Room;
use crate::failure::Failure;
use crate::name::{RelativePath, is_part, part_name};

impl Directory {
    /// The space on the file system on which `path` would be created.
    pub(crate) fn room(&self, path: &RelativePath) -> Result<Room, Failure> {
        let parent = self.parent(path, Missing::Refuse);
        let stat = match &parent {
            Ok(parent) => rustix::fs::fstatvfs(parent),
            // Missing directories will be created on the file system of this one.
            Err(_) => rustix::fs::fstatvfs(&self.root),
        };
        let stat = stat.map_err(failure)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Room { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) })
    }

    /// The largest unfinished file beside `path` other than its own: its name and its size on disk.
    pub(crate) fn largest_part(&self, path: &RelativePath) -> Option<(String, u64)> {
        let parent = self.parent(path, Missing::Refuse).ok()?;
        let own = part_name(path.last());
        let mut largest = None;
        for entry in Dir::read_from(&parent).ok()?.flatten().take(MOST_LOOKED_AT) {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !is_part(name) || name == own {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let bytes = number::<_, u64>(stat.st_blocks).saturating_mul(512);
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if is_file && largest.as_ref().is_none_or(|(_, most)| bytes > *most) {
                largest = Some((name.to_owned(), bytes));
            }
        }
        largest
    }

    /// Whether files there are generated while they are read, so that their sizes are meaningless.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn is_made_up(&self, path: &RelativePath) -> bool {
        let parent = self.parent(path, Missing::Refuse);
        let Ok(Ok(stat)) = parent.map(|parent| rustix::fs::fstatfs(&parent)) else { return false };
        MADE_UP.contains(&number::<_, u32>(stat.f_type & 0xffff_ffff))
    }

    /// Whether files there are generated while they are read: unknown here.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn is_made_up(&self, _: &RelativePath) -> bool {
        false
    }
}

/// `linux/magic.h`: proc, sysfs, debugfs, tracefs, securityfs, configfs, cgroup, cgroup2, bpf, pstore, efivarfs.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MADE_UP: [u32; 11] = [
    0x0000_9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
];
/// Most names of a directory that are searched for unfinished files.
const MOST_LOOKED_AT: usize = 100_000;
