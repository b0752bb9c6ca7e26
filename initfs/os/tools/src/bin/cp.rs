//! `cp source… target`: copies files; the target may be a directory.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use runtime::fs::{self, File};
use runtime::io::Write;
use tools::io::{self, Buffer, CopyError, Input};

runtime::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    if let Some(option) = arguments.iter().find(|word| io::is_option(word)) {
        return io::usage(Some(option));
    }
    let (target, sources) = match arguments.split_last() {
        Some((target, sources)) if !sources.is_empty() => (target, sources),
        _ => return io::usage(None),
    };
    let directory = fs::metadata(target).is_ok_and(|data| data.is_dir());
    if sources.len() > 1 && !directory {
        runtime::eprintln!("cp: {target}: is not a directory; several files need one");
        return 1;
    }
    let mut buffer = Buffer::new(io::BLOCK);
    let mut status = 0;
    for source in sources {
        let target: String = if directory {
            let name = source.rsplit('/').next().unwrap_or(source);
            format!("{}/{name}", target.trim_end_matches('/'))
        } else {
            target.clone()
        };
        status = match copy(source, &target, &mut buffer) {
            Ok(()) => continue,
            Err(CopyError::Input(error)) => io::report("cp", source, error),
            Err(CopyError::Output(error)) => io::report("cp", &target, error),
            Err(CopyError::Enough) => continue,
        };
    }
    status
}

fn copy(source: &str, target: &str, buffer: &mut Buffer) -> Result<(), CopyError> {
    let mut input = Input::open(source).map_err(CopyError::Input)?;
    let mut mode = 0o644;
    if let Ok(data) = fs::metadata(source)
        && data.is_file()
    {
        mode = data.mode() & 0o777;
        // Opening for writing would empty the file before it is read.
        if let Ok(other) = fs::metadata(target)
            && (other.stat().st_dev, other.stat().st_ino)
                == (data.stat().st_dev, data.stat().st_ino)
            && data.stat().st_ino != 0
        {
            return Err(CopyError::Output(runtime::Error::new(syscall::EEXIST)));
        }
    }
    let mut options = File::options();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode | 0o200);
    let mut output = options.open(target).map_err(CopyError::Output)?;
    io::blocks(&mut input, buffer, |block| output.write_all(block))
}
