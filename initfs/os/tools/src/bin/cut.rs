//! `cut`: prints parts of lines.
#![no_std]
#![no_main]

use tools::cut::{self, List, Unit};
use tools::io::{self, CopyError};

tools::main!(main);

fn main() -> i32 {
    let arguments = io::arguments();
    let mut words = io::Options::new(&arguments, "bcdf");
    let (mut list, mut unit, mut separator, mut only) = (None, None, '\t', false);
    while let Some((letter, value)) = words.next() {
        match (letter, value) {
            ('b', Some(text)) => (list, unit) = (List::parse(text), Some(Unit::Bytes)),
            ('c', Some(text)) => (list, unit) = (List::parse(text), Some(Unit::Characters)),
            ('f', Some(text)) => {
                let fields = Unit::Fields { separator, only };
                (list, unit) = (List::parse(text), Some(fields));
            }
            ('d', Some(text)) if text.chars().count() == 1 => {
                separator = text.chars().next().unwrap_or('\t');
            }
            ('s', None) => only = true,
            _ => return io::usage(Some(words.word())),
        }
    }
    let unit = match unit {
        Some(Unit::Fields { .. }) => Unit::Fields { separator, only },
        Some(unit) => unit,
        None => return io::usage(None),
    };
    let Some(list) = list else {
        return io::usage(Some("the list"));
    };
    io::for_each_line("cut", words.rest(), |line, out| {
        if let Some(part) = cut::line(line, &list, unit) {
            out.extend_from_slice(&part);
            out.push(b'\n');
        }
        Ok::<_, CopyError>(())
    })
}
