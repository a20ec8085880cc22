//! One page with several experiments, each beside its document.
//!
//! The directory of the page keeps what each experiment gave in a file of its own, so that one that runs again replaces its
//! part of the page and no other.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fs, io};

use manyway_chart::Align;
use serde::{Deserialize, Serialize};

use super::html::{self, draw_into, escape, grid, list};
use super::lead::Picture;
use super::table::Grid;
use super::{Origin, doing, prepare};
use crate::campaign::{End, Machine, Results};
use crate::error::LabError;
use crate::experiment::{Experiment, Findings, report};

/// An experiment, with the results of each way in which it ran.
#[derive(Debug, Clone)]
pub struct Chapter {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    found: &'static str,
    chosen: &'static str,
    parts: Vec<Part>,
}

/// An experiment that ran in virtual time or on sockets.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    world: World,
    /// The command, its date, version and kernel.
    origin: String,
    /// Whether the experiment came to its end.
    is_complete: bool,
    /// Whether its claims hold; `None` if nothing was measured.
    holds: Option<bool>,
    text: String,
    pictures: Vec<Picture>,
    /// Those of the first scenario.
    settings: Vec<(String, String)>,
}

/// Where an experiment ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// In virtual time.
    Virtual,
    /// On sockets.
    Sockets,
}

impl World {
    const ALL: [Self; 2] = [Self::Virtual, Self::Sockets];

    /// As it stands in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Virtual => "in virtual time",
            Self::Sockets => "on sockets",
        }
    }

    /// In names of files.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Sockets => "sockets",
        }
    }
}

impl Chapter {
    /// An experiment that has not run yet.
    pub fn new(experiment: &Experiment) -> Self {
        let Experiment { name, title, source, found, chosen, .. } = *experiment;
        Self { name, title, source, found, chosen, parts: Vec::new() }
    }

    /// Adds results; returns whether the claims hold.
    ///
    /// # Errors
    /// A figure cannot be drawn.
    pub fn add(
        &mut self,
        world: World,
        findings: &Findings<'_>,
        origin: &Origin,
    ) -> Result<Option<bool>, LabError> {
        let mut pictures = report::pictures(findings)?;
        if pictures.is_empty() {
            pictures = first_case(findings.results)?;
        }
        for picture in &mut pictures {
            picture.file = format!("{}-{}", world.prefix(), picture.file);
        }
        let settings = findings.results.plan.cases.first().map(|case| html::properties(&case.scenario));
        let settings = settings.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        let holds = findings.hold();
        self.parts.push(Part {
            world,
            origin: format!(
                "{}, {}, manyway {}, {}",
                origin.command_line(),
                origin.date,
                origin.version,
                Machine::look().kernel
            ),
            is_complete: matches!(findings.results.end, End::Complete | End::OutOfTime),
            holds,
            text: report::result(findings),
            pictures,
            settings: settings.collect(),
        });
        Ok(holds)
    }

    /// Writes each part into `parts`, and its figures into `figures`. One that was interrupted leaves an earlier one there.
    fn write(&self, directory: &Path) -> Result<(), LabError> {
        let save = |path: PathBuf, text: &str| doing(&path, fs::write(&path, text));
        for part in &self.parts {
            let path = self.part_file(directory, part.world);
            if !part.is_complete && path.exists() {
                continue;
            }
            let text = doing(&path, serde_json::to_string(part).map_err(io::Error::from))?;
            save(path, &text)?;
            for picture in &part.pictures {
                save(directory.join("figures").join(format!("{}.svg", picture.file)), &picture.svg)?;
            }
        }
        Ok(())
    }

    /// Reads the parts that are there.
    fn read(&mut self, directory: &Path) -> Result<(), LabError> {
        for world in World::ALL {
            let path = self.part_file(directory, world);
            let part = match fs::read(&path) {
                Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Err(error),
            };
            let path = path.display();
            let doing =
                || format!("reading {path}, which an experiment left; remove it if another version did");
            self.parts.push(part.map_err(|error| LabError::Io { doing: doing(), error })?);
        }
        Ok(())
    }

    /// The file of a part.
    fn part_file(&self, directory: &Path, world: World) -> PathBuf {
        directory.join(PARTS).join(format!("{}-{}.json", world.prefix(), self.name))
    }

    /// What became of it in a world.
    pub fn verdict(&self, world: World) -> &'static str {
        let part = self.parts.iter().find(|part| part.world == world);
        match part.map(|part| part.holds) {
            None => "not run",
            Some(None) => "nothing measured",
            Some(Some(true)) => "holds",
            Some(Some(false)) => "falls short",
        }
    }
}

/// The figures over time of the first scenario, for an experiment whose figure is one of these.
fn first_case(results: &Results) -> Result<Vec<Picture>, LabError> {
    let figures = html::figures(results)?.into_iter().filter(|figure| figure.case == 0);
    Ok(figures.map(|figure| Picture { file: figure.file, svg: figure.svg }).collect())
}

/// The experiments and what became of them, as rows of text.
pub fn verdicts(chapters: &[Chapter]) -> Vec<[String; 4]> {
    let row = |chapter: &Chapter| {
        let [simulated, real] = World::ALL.map(|world| chapter.verdict(world).to_owned());
        [chapter.name.to_owned(), chapter.source.to_owned(), simulated, real]
    };
    chapters.iter().map(row).collect()
}

/// Heads of the columns of [`verdicts`].
pub const HEADS: [&str; 4] = ["experiment", "document", "in virtual time", "on sockets"];

/// The directory of the parts within that of the page.
const PARTS: &str = "parts";

/// Writes the parts of these experiments into a directory, which is created if necessary, each figure as a file in `figures`,
/// and the page `index.html` of all experiments that have a part there. Other programs may do so at the same time: each
/// waits for the other.
///
/// # Errors
/// [`LabError::Io`] if that cannot be written, or a part of another experiment not be read.
pub fn write_volume(
    chapters: &[Chapter],
    all: &[&'static Experiment],
    origin: &Origin,
    directory: &Path,
) -> Result<(), LabError> {
    prepare(directory)?;
    let parts = directory.join(PARTS);
    doing(&parts, fs::create_dir_all(&parts))?;
    let _lock = doing(&parts, lock(&parts))?;
    for chapter in chapters {
        chapter.write(directory)?;
    }
    let mut chapters: Vec<Chapter> = all.iter().map(|experiment| Chapter::new(experiment)).collect();
    for chapter in &mut chapters {
        chapter.read(directory)?;
    }
    chapters.retain(|chapter| !chapter.parts.is_empty());
    let path = directory.join("index.html");
    doing(&path, fs::write(&path, page(&chapters, origin)))
}

/// Waits until no other program writes there, and keeps others waiting until it is dropped.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::create(directory.join("lock"))?;
    #[cfg(unix)]
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

fn page(chapters: &[Chapter], origin: &Origin) -> String {
    let mut page = html::begin("Manyway and its documents");
    let machine = Machine::look();
    list(
        &mut page,
        &[("Date", origin.date.clone()), ("Processor", format!("{} × {}", machine.cores, machine.cpu))],
    );
    let columns = HEADS.map(|head| (head, Align::Left)).to_vec();
    let rows = verdicts(chapters).into_iter().map(|row| row.to_vec()).collect();
    grid(&mut page, &Grid { columns, rows });
    for chapter in chapters {
        panel(&mut page, chapter);
    }
    html::end(&mut page);
    page
}

/// An experiment: what the document says beside our figures and verdicts, and the settings.
fn panel(page: &mut String, chapter: &Chapter) {
    let (name, title) = (escape(chapter.name), escape(chapter.title));
    let _ = writeln!(page, "<section>\n<h2>{name}</h2>\n<p>{title}</p>\n<div class=\"panel\">\n<div>");
    let _ = writeln!(page, "<h3>The document</h3>\n<p>{}</p>", escape(chapter.source));
    let _ = writeln!(page, "<p>{}</p>\n</div>\n<div>", escape(chapter.found));
    for part in &chapter.parts {
        let (world, verdict) = (part.world.name(), chapter.verdict(part.world));
        let _ = writeln!(page, "<h3>Here {world}: {verdict}</h3>");
        part.pictures.iter().for_each(|picture| draw_into(page, &picture.svg));
    }
    page.push_str("</div>\n</div>\n");
    for part in &chapter.parts {
        let (world, text) = (part.world.name(), escape(&part.text));
        let how = escape(&part.origin);
        let _ = writeln!(page, "<h3>Numbers {world}</h3>\n<p><code>{how}</code></p>\n<pre>{text}</pre>");
    }
    let _ = writeln!(page, "<h3>Settings</h3>\n<p>{}</p>", escape(chapter.chosen));
    for part in &chapter.parts {
        let _ = writeln!(page, "<p>{}:</p>", part.world.name());
        list(page, &part.settings);
    }
    page.push_str("</section>\n");
}
