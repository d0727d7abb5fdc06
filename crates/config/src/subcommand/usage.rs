//! The help of a subcommand, in cobra's layout.

use super::table::{Flag, Slot, Verb};
use gocompat::{GoDuration, quote};

/// The name of the program.
const PROGRAM: &str = "bowline";

/// Returns the help of a verb.
pub(crate) fn verb_help<F: Verb>() -> String {
    format!("{}\n\n{}", F::SHORT, verb::<F>())
}

/// Returns the usage of a verb, which follows an error.
pub(crate) fn verb<F: Verb>() -> String {
    let mut rows: Vec<Row> = F::FLAGS.iter().map(Row::of).collect();
    rows.push(Row::help("start"));
    format!("Usage:\n  {PROGRAM} {} start [flags]\n\nFlags:\n{}", F::GROUP, table(rows))
}

/// Returns the help of a group.
pub(crate) fn group_help<F: Verb>() -> String {
    format!("{} related command\n\n{}", F::GROUP, group::<F>())
}

/// Returns the usage of a group, which follows an error.
pub(crate) fn group<F: Verb>() -> String {
    let name = F::GROUP;
    format!(
        "Usage:\n  {PROGRAM} {name} [command]\n\n\
         Available Commands:\n  start       {}\n\n\
         Flags:\n{}\n\
         Use \"{PROGRAM} {name} [command] --help\" for more information about a command.\n",
        F::SHORT,
        table(vec![Row::help(name)]),
    )
}

/// A row of the table of flags.
struct Row {
    /// The name by which rows are sorted.
    name: &'static str,
    /// The first column.
    flag: String,
    help: String,
}

impl Row {
    fn of<F>(flag: &Flag<F>) -> Row {
        let mut column = format!("      --{}", flag.name);
        let type_name = flag.slot.type_name();
        if !type_name.is_empty() {
            column += &format!(" {type_name}");
        }
        Row { name: flag.name, flag: column, help: format!("{}{}", flag.help, default(flag)) }
    }

    fn help(of: &str) -> Row {
        Row { name: "help", flag: "  -h, --help".to_owned(), help: format!("help for {of}") }
    }
}

/// Returns the note about a default that is not that of its type.
fn default<F>(flag: &Flag<F>) -> String {
    match (&flag.slot, flag.default) {
        (_, "" | "0" | "false") => String::new(),
        (Slot::Text(_), text) => format!(" (default {})", quote(text)),
        (Slot::Strings(_), text) => format!(" (default [{text}])"),
        (Slot::Duration(_), text) => {
            format!(" (default {})", GoDuration::parse(text).unwrap_or_default())
        }
        (_, text) => format!(" (default {text})"),
    }
}

fn table(mut rows: Vec<Row>) -> String {
    rows.sort_by_key(|row| row.name);
    let width = rows.iter().map(|row| row.flag.len()).max().unwrap_or_default();
    let line = |row: &Row| format!("{:width$}   {}\n", row.flag, row.help);
    rows.iter().map(line).collect()
}
