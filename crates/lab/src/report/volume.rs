//! One page with several experiments, each beside its document.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use manyway_chart::Align;

use super::html::{self, draw_into, escape, grid, list};
use super::lead::Picture;
use super::table::Grid;
use super::{Origin, doing, prepare};
use crate::campaign::{Machine, Results};
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
    /// Those of the first scenario.
    settings: Vec<(&'static str, String)>,
    parts: Vec<Part>,
}

/// An experiment that ran in virtual time or on sockets.
#[derive(Debug, Clone)]
struct Part {
    world: World,
    /// Whether its claims hold; `None` if nothing was measured.
    holds: Option<bool>,
    text: String,
    pictures: Vec<Picture>,
}

/// Where an experiment ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// In virtual time.
    Virtual,
    /// On sockets.
    Sockets,
}

impl World {
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
        Self { name, title, source, found, chosen, settings: Vec::new(), parts: Vec::new() }
    }

    /// Adds results; returns whether the claims hold.
    ///
    /// # Errors
    /// A figure cannot be drawn.
    pub fn add(&mut self, world: World, findings: &Findings<'_>) -> Result<Option<bool>, LabError> {
        let mut pictures = report::pictures(findings)?;
        if pictures.is_empty() {
            pictures = first_case(findings.results)?;
        }
        for picture in &mut pictures {
            picture.file = format!("{}-{}", world.prefix(), picture.file);
        }
        if let Some(case) = findings.results.plan.cases.first().filter(|_| self.settings.is_empty()) {
            self.settings = html::properties(&case.scenario);
        }
        let holds = findings.hold();
        self.parts.push(Part { world, holds, text: report::result(findings), pictures });
        Ok(holds)
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
        let [simulated, real] =
            [World::Virtual, World::Sockets].map(|world| chapter.verdict(world).to_owned());
        [chapter.name.to_owned(), chapter.source.to_owned(), simulated, real]
    };
    chapters.iter().map(row).collect()
}

/// Heads of the columns of [`verdicts`].
pub const HEADS: [&str; 4] = ["experiment", "document", "in virtual time", "on sockets"];

/// Writes the page `index.html` into a directory, which is created if necessary, and each figure as a file in `figures`.
///
/// # Errors
/// [`LabError::Io`] if that cannot be written.
pub fn write_volume(chapters: &[Chapter], origin: &Origin, directory: &Path) -> Result<(), LabError> {
    prepare(directory)?;
    for chapter in chapters {
        for picture in chapter.parts.iter().flat_map(|part| &part.pictures) {
            let path = directory.join("figures").join(format!("{}.svg", picture.file));
            doing(&path, fs::write(&path, &picture.svg))?;
        }
    }
    let path = directory.join("index.html");
    doing(&path, fs::write(&path, page(chapters, origin)))
}

fn page(chapters: &[Chapter], origin: &Origin) -> String {
    let mut page = html::begin("Manyway and its documents");
    let machine = Machine::look();
    list(
        &mut page,
        &[
            ("Version", format!("manyway {}", origin.version)),
            ("Command", origin.command_line()),
            ("Date", origin.date.clone()),
            ("Kernel", machine.kernel),
            ("Processor", format!("{} × {}", machine.cores, machine.cpu)),
        ],
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
        let _ = writeln!(page, "<h3>Numbers {}</h3>\n<pre>{}</pre>", part.world.name(), escape(&part.text));
    }
    page.push_str("<h3>Settings</h3>\n");
    let _ = writeln!(page, "<p>{}</p>", escape(chapter.chosen));
    list(page, &chapter.settings);
    page.push_str("</section>\n");
}
