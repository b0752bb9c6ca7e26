//! `ls [-l] [-a] [-1] [path…]`: lists directories.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use runtime::fs::{self, DirEntry, Metadata};
use tools::io;

tools::main!(main);

#[derive(Default)]
struct Options {
    long: bool,
    all: bool,
}

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    let mut options = Options::default();
    while let Some((letter, _)) = words.next() {
        match letter {
            'l' => options.long = true,
            'a' => options.all = true,
            '1' => {}
            _ => return io::usage(Some(words.word())),
        }
    }
    let here = [String::from(".")];
    let paths = match words.rest() {
        [] => &here,
        paths => paths,
    };
    let mut status = 0;
    let mut out = String::new();
    // Files come first, so that none looks as if it were in the directory before it.
    let mut directories = Vec::new();
    for path in paths {
        match fs::metadata(path) {
            Ok(data) if !data.is_dir() => line(path, Some(&data), None, &options, &mut out),
            data => directories.push((path, data.err())),
        }
    }
    for (path, problem) in directories {
        // A file whose scheme has no attributes may still be a directory.
        if let Err(error) = list(path, paths.len() > 1, &options, &mut out) {
            status = io::report("ls", path, problem.unwrap_or(error));
        }
    }
    match io::output(out.as_bytes()) {
        Ok(()) => status,
        Err(error) => io::output_failed("ls", error),
    }
}

fn list(path: &str, title: bool, options: &Options, out: &mut String) -> runtime::Result<()> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        entries.push(entry?);
    }
    entries.retain(|entry| options.all || !entry.file_name().starts_with('.'));
    entries.sort_by(|a, b| a.file_name().cmp(b.file_name()));
    if title {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&format!("{path}:\n"));
    }
    for entry in &entries {
        let data = if options.long {
            fs::metadata(&format!(
                "{}/{}",
                path.trim_end_matches('/'),
                entry.file_name()
            ))
            .ok()
        } else {
            None
        };
        line(entry.file_name(), data.as_ref(), Some(entry), options, out);
    }
    Ok(())
}

fn line(
    name: &str,
    data: Option<&Metadata>,
    entry: Option<&DirEntry>,
    options: &Options,
    out: &mut String,
) {
    if !options.long {
        out.push_str(&format!("{name}\n"));
        return;
    }
    let Some(data) = data else {
        // If the file has no attributes, the listing still shows its kind.
        let kind = if entry.is_some_and(DirEntry::is_dir) {
            'd'
        } else {
            '?'
        };
        out.push_str(&format!(
            "{kind}?????????     ?     ?            ?                   ? {name}\n"
        ));
        return;
    };
    let mut mode = String::new();
    mode.push(match data.mode() & 0xF000 {
        0x4000 => 'd',
        0x8000 => '-',
        0xA000 => 'l',
        0x1000 => 'p',
        0x2000 => 'c',
        0xC000 => 's',
        _ => '?',
    });
    for (bit, letter) in (0..9).rev().zip("rwxrwxrwx".chars()) {
        mode.push(if data.mode() >> bit & 1 == 1 {
            letter
        } else {
            '-'
        });
    }
    let date = match data.stat().st_mtime {
        0 => "-".into(),
        seconds => tools::number::show_date(seconds),
    };
    out.push_str(&format!(
        "{mode} {:>5} {:>5} {:>12} {date:>19} {name}\n",
        data.uid(),
        data.gid(),
        data.len()
    ));
}
