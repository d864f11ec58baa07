//! How a command ends when it does not succeed, or is none.

use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};

/// The result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command did not succeed. Each text is one sentence for the user.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line itself is wrong, whatever there is: exit 2.
    Usage(String),
    /// Something went wrong that the user can act on, or the database refuses what is asked: exit 1.
    Failed(String),
    /// As [`Failure::Failed`], and it may be otherwise the next time, or another way.
    NotNow(String),
    /// The output has said all there is to say: exit 1.
    Said,
    /// Nobody reads standard output any more: exit 0, as there is nobody to tell.
    NoReader,
}

impl Failure {
    /// Prints the sentence and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (text, code) = match self {
            Failure::Usage(text) => (text, 2),
            Failure::Failed(text) | Failure::NotNow(text) => (text, 1),
            Failure::Said => (String::new(), 1),
            Failure::NoReader => (String::new(), 0),
        };
        if !text.is_empty() {
            // If standard error is closed too, the exit code is all that is left.
            tell_aside(&text);
        }
        ExitCode::from(code)
    }

    /// Standard output could not be written to.
    pub fn unwritten(error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::NoReader,
            _ => Failure::Failed(format!("cannot write to standard output: {error}")),
        }
    }

    /// An error about something that was typed.
    pub fn usage(error: thermocline::Error) -> Failure {
        match error.kind() {
            thermocline::ErrorKind::InvalidArgument => Failure::Usage(error.to_string()),
            _ => Failure::from(error),
        }
    }
}

impl From<thermocline::Error> for Failure {
    fn from(error: thermocline::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Ends a run whose command line was not taken. Who asked for help or the version has made no mistake; who typed nothing gets help, too.
pub(crate) fn not_taken(error: clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            match printed {
                _ if error.use_stderr() => ExitCode::from(2),
                Ok(()) => ExitCode::SUCCESS,
                // Nothing is lost with help that nobody reads.
                Err(why) => Failure::unwritten(why).report(),
            }
        }
        _ => Failure::Usage(mistake(error)).report(),
    }
}

/// What the parser says of a mistake, as one sentence. How the command is used takes lines of its own, and `--help` has that.
fn mistake(mut error: clap::Error) -> String {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return "an argument is not UTF-8; give keys and values that are not as digits, with --hex"
            .to_string();
    }
    error.remove(ContextKind::Usage);
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    let hint = "For more information, try '--help'.";
    let text = text.strip_suffix(hint).unwrap_or(text).trim_end();
    let sentences = text.split("\n\n").map(|lines| {
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        of_numbers(lines.join(" "))
    });
    let sentences: Vec<String> = sentences.collect();
    format!("{}; see --help", sentences.join("; "))
}

/// What the standard library says of a number that it cannot read, and what its reader is to do.
const UNREADABLE: [(&str, &str); 5] = [
    (
        "invalid digit found in string",
        "write a whole number, 0 or more",
    ),
    (
        "cannot parse integer from empty string",
        "write a whole number, 0 or more",
    ),
    (
        "number too large to fit in target type",
        "write a smaller number",
    ),
    ("invalid float literal", "write a number, like 1.5"),
    (
        "cannot parse float from empty string",
        "write a number, like 1.5",
    ),
];

/// A sentence of the parser, and if it is about a number, what is wrong with that.
fn of_numbers(sentence: String) -> String {
    let tip = "tip: to pass '-";
    let is_digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    if sentence.strip_prefix(tip).is_some_and(is_digit) {
        // Perhaps it was meant for the option before it. Keys that begin so have been taken.
        return format!("no number is below 0; {sentence}");
    }
    let unreadable = UNREADABLE.iter().find_map(|(told, instead)| {
        let before = sentence.strip_suffix(*told)?;
        Some(format!("{before}{instead}"))
    });
    unreadable.unwrap_or(sentence)
}

/// Writes a line to standard error. Nothing is lost with one that nobody can read; `eprintln!` panics then.
pub(crate) fn tell_aside(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", one_line(text));
}

/// The text as one line. A path, a name or an argument in it may have any characters: a line's end would begin another line, and what
/// a terminal obeys would be obeyed.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_debug()),
            false => line.push(c),
        }
    }
    line
}

/// What became of the output of a command that fails all the same: that nobody reads standard output any more makes no success of that.
pub(crate) fn even_unread(printed: Outcome) -> Outcome {
    match printed {
        Err(Failure::NoReader) => Ok(()),
        printed => printed,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn what_is_told_is_one_line_whatever_is_in_it() {
        let told = one_line("no 'a\tb\nc\u{1b}[31m' in \"Zürich\\x\"");
        assert_eq!(told, "no 'a\\tb\\nc\\u{1b}[31m' in \"Zürich\\x\"");
    }

    #[test]
    fn what_was_typed_wrongly_is_one_sentence() {
        let bytes = OsStr::from_bytes(b"k\xff");
        for (typed, says) in [
            (
                ["get", "DB"].map(OsStr::new).to_vec(),
                "the following required arguments were not provided: <KEY>; see --help",
            ),
            (
                ["delete-range", "DB"].map(OsStr::new).to_vec(),
                "the following required arguments were not provided: <FROM> <TO>; see --help",
            ),
            (
                ["scan", "DB", "--limit", "x"].map(OsStr::new).to_vec(),
                "invalid value 'x' for '--limit <N>': write a whole number, 0 or more; see --help",
            ),
            (
                ["scan", "DB", "--limit", "99999999999999999999"]
                    .map(OsStr::new)
                    .to_vec(),
                "invalid value '99999999999999999999' for '--limit <N>': write a smaller number; see --help",
            ),
            (
                ["restore", "DIR", "DB", "--backup", ""]
                    .map(OsStr::new)
                    .to_vec(),
                "invalid value '' for '--backup <ID>': write a whole number, 0 or more; see --help",
            ),
            (
                ["bench", "fillseq", "--duration", "soon"]
                    .map(OsStr::new)
                    .to_vec(),
                "invalid value 'soon' for '--duration <SECONDS>': write a number, like 1.5; see --help",
            ),
            (
                ["scan", "DB", "--limit", "-1"].map(OsStr::new).to_vec(),
                "unexpected argument '-1' found; no number is below 0; tip: to pass '-1' as a value, use '-- -1'; see --help",
            ),
            (
                vec![OsStr::new("get"), OsStr::new("DB"), bytes],
                "an argument is not UTF-8; give keys and values that are not as digits, with --hex",
            ),
        ] {
            let typed = [OsStr::new("thermocline")].into_iter().chain(typed);
            assert_eq!(mistake(Cli::try_parse_from(typed).unwrap_err()), says);
        }
        // A similar option is named, too.
        let typed = ["thermocline", "scan", "DB", "--limt", "1"];
        let told = mistake(Cli::try_parse_from(typed).unwrap_err());
        let begins = told.starts_with("unexpected argument '--limt' found; tip: ");
        let ends = told.ends_with("'--limit'; see --help");
        assert!(begins && ends && !told.contains('\n'), "{told}");
    }

    #[test]
    fn only_a_reader_who_is_gone_is_passed_over() {
        assert!(even_unread(Ok(())).is_ok());
        assert!(even_unread(Err(Failure::NoReader)).is_ok());
        let full = even_unread(Err(Failure::Failed("no room".to_string())));
        assert!(matches!(full, Err(Failure::Failed(_))));
    }
}
