//! Measures transfers of files, with the binary of the same build.

mod options;
mod process;
mod random;
mod small;
mod torture;

pub(crate) use small::run as small_files;
pub(crate) use torture::run as resume_torture;
