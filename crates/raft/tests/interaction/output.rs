//! The output of a command: empty when quiet, and indented when a command runs others.

/// Log levels of the scripts. Only the highest has an effect: it silences the commands themselves.
const LEVELS: [&str; 6] = ["DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE"];

#[derive(Default)]
pub(crate) struct Output {
    text: String,
    level: usize,
}

impl Output {
    pub(crate) fn level(&self) -> usize {
        self.level
    }

    pub(crate) fn restore_level(&mut self, level: usize) {
        self.level = level;
    }

    pub(crate) fn set_level(&mut self, name: &str) -> Result<(), String> {
        let found = LEVELS.iter().position(|level| level.eq_ignore_ascii_case(name));
        let levels = LEVELS.join(" ");
        self.level = found.ok_or(format!("log levels must be either of [{levels}]"))?;
        Ok(())
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.level == LEVELS.len() - 1
    }

    pub(crate) fn print(&mut self, text: impl AsRef<str>) {
        if !self.is_quiet() {
            self.text.push_str(text.as_ref());
        }
    }

    pub(crate) fn println(&mut self, text: impl AsRef<str>) {
        self.print(text);
        self.print("\n");
    }

    /// Takes the printed text.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Restores the text printed before, followed by the text printed since, indented.
    pub(crate) fn append_indented_to(&mut self, before: String) {
        let inner = std::mem::replace(&mut self.text, before);
        for line in inner.lines() {
            self.text.push_str("  ");
            self.text.push_str(line);
            self.text.push('\n');
        }
    }
}
