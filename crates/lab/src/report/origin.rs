//! Where results come from.

/// The origin of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The version of the program.
    pub version: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// When it was started, such as `2026-03-01 12:00 UTC`.
    pub date: String,
}

impl Origin {
    /// The command, quoted for a shell.
    pub fn command_line(&self) -> String {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@+%".contains(letter);
        let quoted = |word: &String| {
            let is_plain = !word.is_empty() && word.chars().all(plain);
            if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
        };
        self.command.iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}
