//! What is sent: files and directories of this host, and content that can be read only once.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::directory::Directory;
use crate::entry::{Entry, EntryKind};
use crate::failure::{Failure, Reason};
use crate::name::{NameError, RelativePath, printable};
use crate::rules::{Excludes, Links, Rules};

/// What to send, and what to leave out.
#[derive(Debug, Clone, Default)]
pub struct PutPlan {
    /// What to send.
    pub items: Vec<PutItem>,
    /// Which parts of it are left out.
    pub rules: Rules,
}

/// One item to send.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PutItem {
    /// A file or directory of this host, under its own name or another one.
    Path {
        /// Its path. A link is followed.
        path: PathBuf,
        /// Its name at the other side; `None`: its name here.
        name: Option<RelativePath>,
    },
    /// Content of unknown length.
    Feed(Feed),
}

/// Content that is read once, to its end: standard input, a pipe.
#[derive(Clone)]
pub struct Feed {
    name: RelativePath,
    reader: Arc<Mutex<Option<Box<dyn Read + Send>>>>,
}

/// A file or directory below a directory that no name or link leads out of.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) directory: Arc<Directory>,
    /// The path of the directory, if links may be followed out of it.
    pub(crate) real: Option<Arc<Path>>,
    /// Its path below the directory; `None` is the directory itself, whose children are sent under their own names.
    pub(crate) place: Option<RelativePath>,
    /// Its name on the wire; `None` only together with `place`.
    pub(crate) name: Option<RelativePath>,
    /// What it is part of, if a client named something below an offered directory.
    pub(crate) offered: Option<Arc<Offered>>,
}

/// Where something below an offered directory stands, for the patterns of the user who offers it.
#[derive(Debug)]
pub(crate) struct Offered {
    /// The name of the offered directory.
    source: RelativePath,
    /// The name of the directory that holds what the client named; it begins with `source`.
    above: RelativePath,
}

/// Where a walk begins.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Tree(Tree),
    Feed(Feed),
}

impl From<Vec<PathBuf>> for PutPlan {
    fn from(paths: Vec<PathBuf>) -> Self {
        let items = paths.into_iter().map(|path| PutItem::Path { path, name: None });
        Self { items: items.collect(), rules: Rules::default() }
    }
}

impl From<&[PathBuf]> for PutPlan {
    fn from(paths: &[PathBuf]) -> Self {
        paths.to_vec().into()
    }
}

impl Feed {
    /// The content of `reader` until its end, under `name`.
    pub fn new(name: RelativePath, reader: impl Read + Send + 'static) -> Self {
        Self { name, reader: Arc::new(Mutex::new(Some(Box::new(reader)))) }
    }

    /// Its announcement: the current time, and the permissions of any new file.
    pub(crate) fn entry(&self) -> Entry {
        let modified = std::time::SystemTime::now().into();
        Entry { path: self.name.clone(), kind: EntryKind::Stream, size: 0, room: 0, modified, mode: 0o666 }
    }

    /// Takes the content, the first time.
    pub(crate) fn take(&self) -> Result<Box<dyn Read + Send>, Failure> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.ok_or_else(|| Failure::with_text(Reason::Abandoned, "it can be read only once, and was"))
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PutItem {
    /// Finds the item.
    pub(crate) fn source(&self) -> Result<Source, Failure> {
        match self {
            Self::Feed(feed) => Ok(Source::Feed(feed.clone())),
            Self::Path { path, name } => {
                let tree = Tree::local(path)?;
                let name = name.clone().or(tree.name);
                Ok(Source::Tree(Tree { name, ..tree }))
            }
        }
    }

    /// Its path, for messages.
    pub(crate) fn shown(&self) -> PathBuf {
        match self {
            Self::Path { path, .. } => path.clone(),
            Self::Feed(feed) => PathBuf::from(feed.name.as_str()),
        }
    }
}

impl Source {
    pub(crate) fn name(&self) -> Option<&RelativePath> {
        match self {
            Self::Tree(tree) => tree.name.as_ref(),
            Self::Feed(feed) => Some(&feed.name),
        }
    }
}

impl Tree {
    /// A file or directory that the local user named; a link given by name is followed.
    pub(crate) fn local(path: &Path) -> Result<Self, Failure> {
        let real = path.canonicalize().map_err(|e| Failure::from_io(&e))?;
        let (Some(parent), Some(place)) = (real.parent(), real.file_name()) else {
            return Err(Failure::with_text(Reason::Name, "the root directory has no name to send it under"));
        };
        let name = path.file_name().unwrap_or(place);
        let parse = |text: &std::ffi::OsStr| RelativePath::parse(text.to_str().ok_or(NameError::NotText)?);
        Ok(Self {
            directory: Arc::new(Directory::open(parent)?.for_transfer()),
            real: Some(parent.into()),
            place: Some(parse(place)?),
            name: Some(parse(name)?),
            offered: None,
        })
    }

    /// A file or directory of a served directory, `None` for all of it.
    pub(crate) fn served(directory: &Arc<Directory>, place: Option<RelativePath>) -> Result<Self, Failure> {
        // transfer 7.2: names are relative to the parent of what was asked for
        let name = place.as_ref().map(|p| RelativePath::parse(p.last())).transpose()?;
        let directory = Arc::new(directory.for_transfer());
        Ok(Self { directory, real: None, place, name, offered: None })
    }

    /// What `path` names below this offered directory. Unless the local user lets links be followed, no name or link
    /// leads out of the offered directory.
    // transfer 7.4, 7.8
    pub(crate) fn below(&self, path: &RelativePath, links: Links) -> Result<Self, Failure> {
        let not_found = || Failure::new(Reason::NotFound);
        let (real, place) = self.real.as_ref().zip(self.place.as_ref()).ok_or_else(not_found)?;
        let base: Arc<Path> = real.join(place.as_str()).into();
        let components: Vec<_> = path.components().collect();
        let (source, below) = components.split_first().ok_or_else(not_found)?;
        let offered =
            Offered { source: RelativePath::parse(source)?, above: path.parent().ok_or_else(not_found)? };
        Ok(Self {
            directory: Arc::new(Directory::open(&base)?.for_transfer()),
            real: (links == Links::Follow).then_some(base),
            place: Some(RelativePath::parse(&below.join("/"))?),
            name: Some(RelativePath::parse(path.last())?),
            offered: Some(Arc::new(offered)),
        })
    }

    /// Whether the patterns leave this out as part of what is offered: by its name there, or, where a link inside the
    /// offered directory led to it, by its own.
    pub(crate) fn is_left_out_of_offer(&self, exclude: &Excludes, is_directory: bool) -> bool {
        let (Some(offered), Some(name), Some(place)) = (&self.offered, &self.name, &self.place) else {
            return false;
        };
        let fits = |base: &RelativePath, below: &RelativePath| {
            let Ok(path) = RelativePath::parse(&format!("{}/{}", base.as_str(), below.as_str())) else {
                return true;
            };
            let mut beginnings = std::iter::successors(path.parent(), RelativePath::parent);
            // What is offered itself was named by the local user.
            let above = beginnings.any(|above| above.parent().is_some() && exclude.fits(&above, true));
            above || exclude.fits(&path, is_directory)
        };
        fits(&offered.above, name) || self.real.is_none() && fits(&offered.source, place)
    }
}

/// Checks that no two sources would become the same file.
// transfer 3.5
pub(crate) fn check_distinct(sources: &[Source]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for name in sources.iter().filter_map(Source::name) {
        if !names.insert(name.last()) {
            let text = format!("two of the paths would both become {}", printable(name.last()));
            return Err(Failure::with_text(Reason::Name, text));
        }
    }
    Ok(())
}
