//! Reading, writing and reporting errors, in the same way for all programs.
//!
//! Reading takes ECONNRESET as the end of the input: a SCIF connection has no other way to show
//! that the peer has closed it after its last byte, so `cat /scheme/scif/accept/2050` ends without
//! an error.

use alloc::string::String;
use alloc::vec::Vec;

use crate::lines::Lines;
use crate::manual::{Page, UNKNOWN};
use libredox::Fd;
use runtime::fs::{File, SeekFrom};
use runtime::io::{Read, Write};
use runtime::process::Command;
use runtime::sync::Mutex;
use syscall::error::{ECONNRESET, EISDIR, EPIPE, Error, Result};

/// Bytes to move at a time. A scheme gets buffers of whole pages without a copy.
pub const BLOCK: usize = 64 * 1024;
const PAGE_BYTES: usize = 4096;

/// The page of the program that runs.
static OWN_PAGE: Mutex<Page> = Mutex::new(UNKNOWN);

/// A buffer that begins at a page.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// `length` zero bytes.
    pub fn new(length: usize) -> Self {
        let bytes = alloc::vec![0; length + PAGE_BYTES];
        let start = (bytes.as_ptr() as usize).wrapping_neg() % PAGE_BYTES;
        Buffer {
            bytes,
            start,
            length,
        }
    }

    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// Says which page of the manual is this program's, as [`main!`](crate::main) does.
pub fn set_page(page: Page) {
    *OWN_PAGE.lock() = page;
}

/// Returns the arguments without the program's name. If the first one is `--help` or `--version`,
/// prints the answer from the program's [page](crate::manual) and ends the program.
pub fn arguments() -> Vec<String> {
    let words: Vec<String> = runtime::env::args().skip(1).collect();
    let answer = match words.first().map(String::as_str) {
        Some("--help") => page().text(),
        Some("--version") => page().version(),
        _ => return words,
    };
    let status = match output(answer.as_bytes()) {
        Ok(()) => 0,
        Err(error) => output_failed(page().name, error),
    };
    runtime::process::exit(status)
}

/// Checks that there are no arguments. Returns the exit status if there are some.
pub fn no_arguments() -> Option<i32> {
    let words = arguments();
    words.first().map(|word| usage(Some(word)))
}

/// The page of the program that runs.
fn page() -> Page {
    *OWN_PAGE.lock()
}

/// The words of a program without options, without the `--` before them.
///
/// # Errors
/// The exit status, if the first word looks like an option.
pub fn operands(words: &[String]) -> core::result::Result<&[String], i32> {
    let mut options = Options::new(words, "");
    match options.next() {
        Some(_) => Err(usage(Some(options.word()))),
        None => Ok(options.rest()),
    }
}

/// The words without the `--` before them, for programs whose first word may begin with a dash.
pub fn behind_dashes(words: &[String]) -> &[String] {
    match words {
        [dashes, rest @ ..] if dashes == "--" => rest,
        words => words,
    }
}

/// Whether a word is an option. A dash alone stands for standard input.
pub fn is_option(word: &str) -> bool {
    word.starts_with('-') && word.len() > 1
}

/// Reports a wrong command line and returns the exit status. `wrong` is the word that is wrong,
/// `None` if words are missing or there are too many.
pub fn usage(wrong: Option<&str>) -> i32 {
    let page = page();
    let name = page.name;
    match wrong {
        Some(wrong) => runtime::eprintln!("{name}: `{wrong}` is not understood"),
        None => runtime::eprintln!("{name}: arguments are missing, or too many"),
    }
    runtime::eprintln!("usage: {}", page.usage());
    runtime::eprintln!("`{name} --help` says more");
    2
}

/// Reports `program: what: error` and returns the exit status.
pub fn report(program: &str, what: &str, error: Error) -> i32 {
    runtime::eprintln!("{program}: {what}: {error}");
    1
}

/// An open input.
pub struct Input {
    file: Option<File>,
}

impl Input {
    /// Opens `path`, or standard input for `-`.
    ///
    /// # Errors
    /// EISDIR for a directory; those of opening.
    pub fn open(path: &str) -> Result<Self> {
        if path == "-" {
            return Ok(Input { file: None });
        }
        let file = File::open(path)?;
        // Not every scheme has attributes; those that have them show which files are directories.
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(Error::new(EISDIR));
        }
        Ok(Input { file: Some(file) })
    }

    /// Reads what is there; 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let result = match &mut self.file {
            Some(file) => file.read(buffer),
            None => runtime::io::stdin().read(buffer),
        };
        match result {
            Err(Error { errno: ECONNRESET }) => Ok(0),
            result => result,
        }
    }

    /// Gives the last bytes that were read back to standard input, for the next program that reads
    /// it. What is no file cannot take them, so they are lost.
    pub fn give_back(&mut self, count: usize) {
        if count == 0 || self.file.is_some() {
            return;
        }
        let mut file = File::from_raw_fd(0);
        let _ = file.seek(SeekFrom::Current(-(count as i64)));
        file.into_raw_fd();
    }

    /// Fills the buffer as far as the input goes.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

/// Writes everything to standard output.
pub fn output(bytes: &[u8]) -> Result<()> {
    runtime::io::stdout().write_all(bytes)
}

/// Reports that standard output failed. No message is printed if its reader has closed it.
pub fn output_failed(program: &str, error: Error) -> i32 {
    if error.errno == EPIPE {
        return 1;
    }
    report(program, "standard output", error)
}

/// The side of a copy that failed.
pub enum CopyError {
    /// Reading.
    Input(Error),
    /// Writing.
    Output(Error),
    /// Neither: the rest of the input is not needed.
    Enough,
}

/// Passes all blocks of the input to `each`. An error of `each` counts as one of output.
pub fn blocks(
    input: &mut Input,
    buffer: &mut Buffer,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> core::result::Result<(), CopyError> {
    loop {
        let count = input.read(buffer.bytes()).map_err(CopyError::Input)?;
        if count == 0 {
            return Ok(());
        }
        each(&buffer.bytes()[..count]).map_err(CopyError::Output)?;
    }
}

/// Runs `each` for every path (standard input if there is none). Reports errors with the path and
/// goes on. Returns the exit status.
pub fn for_each_input(
    program: &str,
    paths: &[String],
    mut each: impl FnMut(&str, &mut Input) -> core::result::Result<(), CopyError>,
) -> i32 {
    let standard = [String::from("-")];
    let paths = if paths.is_empty() { &standard } else { paths };
    let mut status = 0;
    for path in paths {
        let result = Input::open(path)
            .map_err(CopyError::Input)
            .and_then(|mut input| each(path, &mut input));
        match result {
            Ok(()) => {}
            Err(CopyError::Input(error)) => status = report(program, path, error),
            Err(CopyError::Output(error)) => return output_failed(program, error),
            Err(CopyError::Enough) => return status,
        }
    }
    status
}

/// Runs `each` for every line, without its end, of every path (standard input if there is none),
/// with the output so far, to which it adds. Returns the exit status.
pub fn for_each_line(
    program: &str,
    paths: &[String],
    mut each: impl FnMut(&[u8], &mut Vec<u8>) -> core::result::Result<(), CopyError>,
) -> i32 {
    let mut buffer = Buffer::new(BLOCK);
    for_each_input(program, paths, |_, input| {
        let mut lines = Lines::new();
        let mut out = Vec::new();
        let mut over = Ok(());
        let (mut read, mut used) = (0, 0);
        let mut one = |line: &[u8], out: &mut Vec<u8>| {
            used += line.len();
            over = each(line.strip_suffix(b"\n").unwrap_or(line), out);
            over.is_ok()
        };
        loop {
            let count = input.read(buffer.bytes()).map_err(CopyError::Input)?;
            read += count;
            let block = &buffer.bytes()[..count];
            let mut go_on = lines.push(block, |line| one(line, &mut out));
            if count == 0
                && let Some(rest) = lines.finish()
            {
                go_on = one(&rest, &mut out);
            }
            output(&out).map_err(CopyError::Output)?;
            out.clear();
            if count == 0 || !go_on {
                break;
            }
        }
        input.give_back(read - used);
        over
    })
}

/// The options of a command line: letters, several of which may share a word. Some have a value,
/// in the same word or the next one. The options end with the first other word, or with `--`.
pub struct Options<'a> {
    words: &'a [String],
    /// The letters of the current word that are left.
    letters: &'a str,
    word: &'a str,
    with_value: &'static str,
}

impl<'a> Options<'a> {
    /// The options in `words`; the letters in `with_value` have one.
    pub fn new(words: &'a [String], with_value: &'static str) -> Self {
        Options {
            words,
            letters: "",
            word: "",
            with_value,
        }
    }

    /// Returns the next letter and its value. A letter without a value that it must have is
    /// returned as `?`.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would borrow the words, whose rest is read after the options"
    )]
    pub fn next(&mut self) -> Option<(char, Option<&'a str>)> {
        if self.letters.is_empty() {
            let (first, rest) = self.words.split_first()?;
            if !is_option(first) {
                return None;
            }
            self.words = rest;
            if first == "--" {
                return None;
            }
            (self.word, self.letters) = (first, &first[1..]);
        }
        let letter = self.letters.chars().next()?;
        self.letters = &self.letters[letter.len_utf8()..];
        if !self.with_value.contains(letter) {
            return Some((letter, None));
        }
        let value = core::mem::take(&mut self.letters);
        if !value.is_empty() {
            return Some((letter, Some(value)));
        }
        match self.words.split_first() {
            Some((value, rest)) => {
                self.words = rest;
                Some((letter, Some(value)))
            }
            None => Some(('?', None)),
        }
    }

    /// The word of the last letter.
    pub fn word(&self) -> &'a str {
        self.word
    }

    /// The words behind the options.
    pub fn rest(&self) -> &'a [String] {
        self.words
    }
}

/// The options of `head` and `tail`, and the count of lines: that of the older spelling `-5`, or
/// 10.
pub fn short_count<'a>(words: &'a [String], with_value: &'static str) -> (Options<'a>, &'a str) {
    let count = words.first().and_then(|word| word.strip_prefix('-'));
    match count.filter(|count| count.starts_with(|first: char| first.is_ascii_digit())) {
        Some(count) => (Options::new(&words[1..], with_value), count),
        None => (Options::new(words, with_value), "10"),
    }
}

/// The user that this process acts as.
pub fn own_user() -> usize {
    libredox::call::geteuid().unwrap_or_default()
}

/// The group that this process acts as.
pub fn own_group() -> usize {
    libredox::call::getegid().unwrap_or_default()
}

/// The name of a user or group.
pub fn user_name(id: usize) -> String {
    match id {
        0 => "root".into(),
        id => alloc::format!("{id}"),
    }
}

/// Clears the screen and runs a program, repeatedly, until an interrupt. Returns the status of a
/// run that failed to begin.
pub fn repeat(name: &str, program: &[String], pause: core::time::Duration) -> i32 {
    let title = alloc::format!(
        "\x1b[H\x1b[2Jevery {} ms: {}\n\n",
        pause.as_millis(),
        program.join(" ")
    );
    loop {
        if let Err(error) = output(title.as_bytes()) {
            return output_failed(name, error);
        }
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]);
        if let Err(error) = command.spawn().and_then(|mut child| child.wait()) {
            report(name, &program[0], error);
            return 127;
        }
        runtime::time::sleep(pause);
    }
}

/// The sizes of total and free memory in bytes, from the scheme `memory`.
pub fn memory() -> Result<(u64, u64)> {
    let fd = Fd::open("/scheme/memory/zeroed", libredox::flag::O_CLOEXEC, 0)?;
    let data = libredox::call::fstatvfs(fd.raw())?;
    Ok((
        data.f_blocks * data.f_bsize as u64,
        data.f_bfree * data.f_bsize as u64,
    ))
}
