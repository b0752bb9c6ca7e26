//! `find`: lists files below directories.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use patterns::file_name::Pattern;
use runtime::fs;
use tools::io;

tools::main!(main);

/// A condition on files.
enum Test {
    Name(String),
    Directory(bool),
    /// More (`true`) or less than this number of bytes.
    Size(bool, u64),
}

struct Search {
    tests: Vec<(bool, Test)>,
    depth: usize,
    out: String,
    status: i32,
}

fn main() -> i32 {
    let arguments = io::arguments();
    let is_test = |word: &String| word.starts_with('-') || word == "!";
    let count = arguments.iter().take_while(|word| !is_test(word)).count();
    let (paths, expression) = arguments.split_at(count);
    let mut search = Search {
        tests: Vec::new(),
        depth: usize::MAX,
        out: String::new(),
        status: 0,
    };
    let mut words = expression.iter();
    let mut wanted = true;
    while let Some(word) = words.next() {
        let test = match word.as_str() {
            "!" => {
                wanted = !wanted;
                continue;
            }
            "-print" => continue,
            "-maxdepth" => match words.next().and_then(|depth| depth.parse().ok()) {
                Some(depth) => {
                    search.depth = depth;
                    continue;
                }
                None => return io::usage(Some(word)),
            },
            "-name" => words.next().map(|pattern| Test::Name(pattern.clone())),
            "-type" => match words.next().map(String::as_str) {
                Some("d") => Some(Test::Directory(true)),
                Some("f") => Some(Test::Directory(false)),
                _ => None,
            },
            "-size" => words.next().and_then(|size| {
                let more = size.starts_with('+');
                let number = size.strip_prefix(['+', '-'])?;
                Some(Test::Size(more, number.trim_end_matches('c').parse().ok()?))
            }),
            _ => None,
        };
        match test {
            Some(test) => search.tests.push((wanted, test)),
            None => return io::usage(Some(word)),
        }
        wanted = true;
    }
    let here = [String::from(".")];
    for path in if paths.is_empty() { &here } else { paths } {
        search.visit(path, 0);
    }
    match search.print() {
        Ok(()) => search.status,
        Err(error) => io::output_failed("find", error),
    }
}

impl Search {
    fn visit(&mut self, path: &str, depth: usize) {
        let data = fs::metadata(path);
        // A file whose scheme has no attributes may still be a directory.
        let listed = match &data {
            Ok(data) if !data.is_dir() => None,
            _ => Some(fs::read_dir(path)),
        };
        let directory = matches!(listed, Some(Ok(_)));
        if let (Err(error), false) = (&data, directory) {
            self.status = io::report("find", path, *error);
            return;
        }
        let size = data.map_or(0, |data| data.len());
        if self.tests.iter().all(|(wanted, test)| {
            let holds = match test {
                Test::Name(pattern) => {
                    let name = path.trim_end_matches('/').rsplit('/').next();
                    Pattern::plain(pattern).matches(name.unwrap_or(path).as_bytes())
                }
                Test::Directory(wanted) => directory == *wanted,
                Test::Size(true, bytes) => size > *bytes,
                Test::Size(false, bytes) => size < *bytes,
            };
            holds == *wanted
        }) {
            self.out.push_str(&format!("{path}\n"));
        }
        let Some(listed) = listed.filter(|_| depth < self.depth) else {
            return;
        };
        let entries: Result<Vec<_>, _> = listed.and_then(|entries| entries.collect());
        match entries {
            Ok(entries) => {
                let names = entries.iter().map(|entry| String::from(entry.file_name()));
                let mut names: Vec<String> = names
                    .filter(|name| !matches!(name.as_str(), "." | ".."))
                    .collect();
                names.sort();
                for name in names {
                    self.visit(&format!("{}/{name}", path.trim_end_matches('/')), depth + 1);
                }
            }
            Err(error) => self.status = io::report("find", path, error),
        }
    }

    fn print(&self) -> runtime::Result<()> {
        io::output(self.out.as_bytes())
    }
}
