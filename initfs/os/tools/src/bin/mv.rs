//! `mv`: moves files; the target may be a directory. The system's interface knows no other way
//! than a copy.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use runtime::fs::{self, File};
use runtime::io::Write;
use syscall::error::{EISDIR, Error, Result};
use tools::io::{self, Buffer, CopyError, Input};

runtime::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "");
    while let Some((letter, _)) = words.next() {
        if letter != 'f' {
            return io::usage(Some(words.word()));
        }
    }
    let (target, sources) = match words.rest().split_last() {
        Some((target, sources)) if !sources.is_empty() => (target, sources),
        _ => return io::usage(None),
    };
    let directory = fs::metadata(target).is_ok_and(|data| data.is_dir());
    if sources.len() > 1 && !directory {
        runtime::eprintln!("mv: {target}: is not a directory; several files need one");
        return 1;
    }
    let mut status = 0;
    for source in sources {
        let target: String = if directory {
            let name = source.trim_end_matches('/').rsplit('/').next();
            format!(
                "{}/{}",
                target.trim_end_matches('/'),
                name.unwrap_or(source)
            )
        } else {
            target.clone()
        };
        let moved = move_file(source, &target);
        if let Err(error) = moved {
            status = io::report("mv", source, error);
        }
    }
    status
}

fn move_file(source: &str, target: &str) -> Result<()> {
    let data = fs::metadata(source)?;
    if data.is_dir() {
        return Err(Error::new(EISDIR));
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    let mut output = options.mode(data.mode() & 0o777).open(target)?;
    let mut input = Input::open(source)?;
    let mut buffer = Buffer::new(io::BLOCK);
    let copied = io::blocks(&mut input, &mut buffer, |block| output.write_all(block));
    copied.map_err(|error| match error {
        CopyError::Input(error) | CopyError::Output(error) => error,
        CopyError::Enough => Error::new(EISDIR),
    })?;
    fs::remove_file(source)
}
