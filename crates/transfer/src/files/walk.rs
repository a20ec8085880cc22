//! Walks over everything below some starting points, parents first, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;

use super::source::{Feed, Source, Tree};
use crate::directory::{ChildName, Directory, Facts};
use crate::entry::{Entry, EntryKind, Timestamp};
use crate::failure::{Failure, Reason};
use crate::link::LinkTarget;
use crate::name::{NameError, RelativePath, printable};
use crate::request::Totals;
use crate::rules::{Links, Rules};

/// Where the content of an entry is.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// In this file, or in none if it is a directory or a link.
    Place(Arc<Directory>, RelativePath),
    /// It is read once.
    Feed(Feed),
}

/// A step of the walk.
#[derive(Debug)]
pub(crate) enum Step {
    Found {
        origin: Origin,
        entry: Entry,
        /// Whether the same file was found under another name before.
        is_again: bool,
    },
    /// It is not sent; [`Reason::LeftOut`] if that is on purpose.
    Failed { name: String, failure: Failure },
}

/// Visits everything below the sources, reading each directory when it is reached.
///
/// Memory: the names in each directory on the way to the current entry, and 16 bytes for each of at most
/// [`MOST_LINKED`] files with several names.
// transfer 3.1
#[derive(Debug)]
pub(crate) struct Walk {
    sources: std::vec::IntoIter<Source>,
    levels: Vec<Level>,
    rules: Rules,
    /// File systems, and whether their files are generated while they are read.
    devices: BTreeMap<u64, bool>,
    linked: BTreeSet<(u64, u64)>,
    /// Number of followed links, which could multiply the files without end.
    followed: usize,
}

/// A directory that is being visited.
#[derive(Debug)]
struct Level {
    tree: Tree,
    identity: (u64, u64),
    children: std::vec::IntoIter<ChildName>,
}

impl Walk {
    pub(crate) fn new(sources: Vec<Source>, rules: Rules) -> Self {
        let sources = sources.into_iter();
        Self {
            sources,
            levels: Vec::new(),
            rules,
            devices: BTreeMap::new(),
            linked: BTreeSet::new(),
            followed: 0,
        }
    }

    /// Visits an entry; a directory's children are next.
    fn visit(&mut self, tree: Tree) -> Option<Step> {
        let (Some(place), Some(name)) = (tree.place.clone(), tree.name.clone()) else {
            let entered = self.enter(tree, (0, 0));
            return entered.err().map(|failure| Step::Failed { name: ".".to_owned(), failure });
        };
        match tree.directory.describe(&place) {
            Ok(facts) => self.found(tree, place, name, facts),
            Err(failure) if failure.reason == Reason::SymbolicLink => self.visit_link(tree, &place, name),
            Err(failure) if failure.reason == Reason::NotFile && !self.levels.is_empty() => {
                Some(left_out(&name, "neither a file nor a directory"))
            }
            Err(failure) => Some(failed(&name, failure)),
        }
    }

    fn found(
        &mut self,
        tree: Tree,
        place: RelativePath,
        name: RelativePath,
        mut facts: Facts,
    ) -> Option<Step> {
        let is_directory = facts.kind == EntryKind::Directory;
        let tree = Tree { place: Some(place.clone()), name: Some(name.clone()), ..tree };
        if tree.is_left_out_of_offer(&self.rules.exclude, is_directory) {
            let text = "it is left out of what is offered";
            return self.levels.is_empty().then(|| failed(&name, Failure::with_text(Reason::NotFound, text)));
        }
        if !self.levels.is_empty() && self.rules.exclude.fits(&name, is_directory) {
            return None;
        }
        let identity = (facts.device, facts.inode);
        if facts.kind == EntryKind::File && self.is_of_unknown_length(&tree.directory, &place, &facts) {
            (facts.kind, facts.size, facts.room) = (EntryKind::Stream, 0, 0);
        }
        let is_again = facts.kind == EntryKind::File && facts.links > 1 && !self.remember(identity);
        let directory = Arc::clone(&tree.directory);
        if is_directory && let Err(failure) = self.enter(tree, identity) {
            return Some(failed(&name, failure));
        }
        let Facts { kind, size, room, modified, mode, .. } = facts;
        let entry = Entry { path: name, kind, size, room, modified, mode };
        Some(Step::Found { origin: Origin::Place(directory, place), entry, is_again })
    }

    /// Records a file with several names; returns whether it is new.
    fn remember(&mut self, identity: (u64, u64)) -> bool {
        self.linked.len() >= MOST_LINKED || identity == (0, 0) || self.linked.insert(identity)
    }

    // transfer 3.2, 3.9
    fn visit_link(&mut self, tree: Tree, place: &RelativePath, name: RelativePath) -> Option<Step> {
        // A link given by name is followed.
        let is_named = self.levels.is_empty();
        if !is_named && self.rules.exclude.fits(&name, false) {
            return None;
        }
        match self.rules.links {
            Links::Skip if !is_named => Some(left_out(&name, "symbolic link")),
            Links::Keep if !is_named => Some(self.keep_link(&tree, place, name)),
            Links::Keep | Links::Skip | Links::Follow => match follow(&tree, place) {
                Some((_, facts)) if self.is_inside_itself(&facts) => {
                    Some(left_out(&name, "symbolic link to a directory that holds it"))
                }
                Some(_) if self.followed >= MOST_FOLLOWED => Some(failed(
                    &name,
                    Failure::with_text(Reason::Limit, "too many symbolic links are followed"),
                )),
                Some((target, facts)) => {
                    self.followed += 1;
                    let place = target.place.clone()?;
                    let offered = tree.offered.clone();
                    self.found(Tree { offered, ..target }, place, name, facts)
                }
                None if is_named => {
                    let text = "a symbolic link that is broken or leads out of the directory";
                    Some(failed(&name, Failure::with_text(Reason::NotFound, text)))
                }
                None => Some(left_out(&name, "symbolic link that is broken or leads out of the directory")),
            },
        }
    }

    fn keep_link(&self, tree: &Tree, place: &RelativePath, name: RelativePath) -> Step {
        let text = match tree.directory.read_link(place) {
            Ok(text) => text,
            Err(failure) => return failed(&name, failure),
        };
        let depth = usize::from(self.levels.first().is_some_and(|level| level.tree.name.is_some()));
        let target = LinkTarget::parse(&text).ok().filter(|target| target.stays_below(&name, depth));
        let Some(target) = target else {
            return left_out(&name, &format!("symbolic link that leads out of the tree, to {text}"));
        };
        let kind = EntryKind::Link(target);
        let modified = Timestamp::default();
        let entry = Entry { path: name, kind, size: 0, room: 0, modified, mode: 0o777 };
        let origin = Origin::Place(Arc::clone(&tree.directory), place.clone());
        Step::Found { origin, entry, is_again: false }
    }

    /// Whether a directory is one of those being visited: following a link to it would never end.
    fn is_inside_itself(&self, facts: &Facts) -> bool {
        let identity = (facts.device, facts.inode);
        identity != (0, 0) && self.levels.iter().any(|level| level.identity == identity)
    }

    /// Whether the size of a file is meaningless: it has content though its size is 0, or its file system generates it.
    // transfer 3.7
    fn is_of_unknown_length(&mut self, directory: &Directory, place: &RelativePath, facts: &Facts) -> bool {
        let is_made_up = *self.devices.entry(facts.device).or_insert_with(|| directory.is_made_up(place));
        if is_made_up || facts.size > 0 {
            return is_made_up;
        }
        let Ok((mut file, now)) = directory.read(place) else { return false };
        now.size == 0 && matches!(file.read(&mut [0]), Ok(1..))
    }

    fn enter(&mut self, tree: Tree, identity: (u64, u64)) -> Result<(), Failure> {
        let children = tree.directory.children(tree.place.as_ref())?.into_iter();
        self.levels.push(Level { tree, identity, children });
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let tree = match self.levels.last_mut() {
                None => match self.sources.next()? {
                    Source::Tree(tree) => tree,
                    Source::Feed(feed) => {
                        let entry = feed.entry();
                        return Some(Step::Found { origin: Origin::Feed(feed), entry, is_again: false });
                    }
                },
                Some(level) => match level.children.next() {
                    None => {
                        self.levels.pop();
                        continue;
                    }
                    Some(child) => match level.tree.child(child) {
                        Ok(Some(tree)) => tree,
                        Ok(None) => continue,
                        Err((name, failure)) => return Some(Step::Failed { name, failure }),
                    },
                },
            };
            if let Some(step) = self.visit(tree) {
                return Some(step);
            }
        }
    }
}

impl Tree {
    /// A child of this directory; `None` if it is still being received.
    fn child(&self, child: ChildName) -> Result<Option<Self>, (String, Failure)> {
        let failed = |name: &str, error: NameError| {
            let name = match &self.name {
                Some(parent) => format!("{}/{}", parent.as_str(), printable(name)),
                None => printable(name),
            };
            (name, error.into())
        };
        let text = child.map_err(|shown| failed(&shown, NameError::NotText))?;
        let extend = |base: &Option<RelativePath>| match base {
            Some(base) => base.join(&text),
            None => RelativePath::parse(&text),
        };
        match (extend(&self.place), extend(&self.name)) {
            (Ok(place), Ok(name)) => Ok(Some(Self { place: Some(place), name: Some(name), ..self.clone() })),
            // transfer 5.1: files that are still being received are not sent
            (Err(NameError::Reserved), _) | (_, Err(NameError::Reserved)) => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(failed(&text, error)),
        }
    }
}

/// The target of a link: anywhere on this host if the tree is the local user's, else below the served directory.
// transfer 5.7
fn follow(tree: &Tree, place: &RelativePath) -> Option<(Tree, Facts)> {
    if let Some(real) = &tree.real {
        let target = Tree::local(&real.join(place.as_str()).canonicalize().ok()?).ok()?;
        let facts = target.directory.describe(target.place.as_ref()?).ok()?;
        return Some((target, facts));
    }
    let mut place = place.clone();
    for _ in 0..MOST_LINKS {
        let components: Vec<_> = place.components().collect();
        let beginnings = (1..=components.len()).filter_map(|n| components.split_at_checked(n));
        let link = beginnings.into_iter().find_map(|(beginning, rest)| {
            let link = RelativePath::parse(&beginning.join("/")).ok()?;
            let target = tree.directory.read_link(&link).ok()?;
            Some((link, target, rest.join("/")))
        });
        let Some((link, target, rest)) = link else {
            let facts = tree.directory.describe(&place).ok()?;
            return Some((Tree { place: Some(place), ..tree.clone() }, facts));
        };
        let target = LinkTarget::parse(&target).ok()?.resolve(&link)?;
        place = match rest.as_str() {
            "" => target,
            rest => RelativePath::parse(&format!("{}/{rest}", target.as_str())).ok()?,
        };
    }
    None
}

fn failed(name: &RelativePath, failure: Failure) -> Step {
    Step::Failed { name: name.as_str().to_owned(), failure }
}

fn left_out(name: &RelativePath, why: &str) -> Step {
    failed(name, Failure::with_text(Reason::LeftOut, why))
}

/// Counts what a walk will find; failures are not counted.
pub(crate) fn survey(sources: &[Source], rules: &Rules) -> Totals {
    let mut totals = Totals::default();
    for step in Walk::new(sources.to_vec(), rules.clone()) {
        if let Step::Found { entry, .. } = step {
            totals.files += 1;
            totals.bytes = totals.bytes.saturating_add(entry.size);
        }
    }
    totals
}

/// Most links that one walk follows.
const MOST_FOLLOWED: usize = 100_000;
/// A longer chain of links counts as a loop.
const MOST_LINKS: usize = 16;
/// Most files with several names that are remembered.
const MOST_LINKED: usize = 100_000;
