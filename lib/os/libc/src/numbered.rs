//! Formats that pick their arguments by numbers (`%2$d`). C's list of arguments can only be read
//! from its beginning, with the type of each, so the types are found first.

use alloc::vec::Vec;

use crate::format::{self, Arguments, Output};

/// As [`format::print`], with arguments that can only be read in order.
pub fn print(output: &mut dyn Output, text: &[u8], arguments: &mut dyn Arguments) -> usize {
    if !text.contains(&b'$') {
        return format::print(output, text, arguments);
    }
    let mut kinds = Kinds::default();
    format::print(&mut Nowhere, text, &mut kinds);
    if !kinds.is_numbered {
        return format::print(output, text, arguments);
    }
    let values = kinds.kinds.iter().map(|kind| match kind {
        Kind::Integer => Value::Integer(arguments.integer(false)),
        Kind::Long => Value::Integer(arguments.integer(true)),
        Kind::Double => Value::Double(arguments.double()),
        Kind::Pointer => Value::Pointer(arguments.pointer()),
    });
    let values = values.collect();
    format::print(
        output,
        text,
        &mut Numbered {
            values,
            next: 0,
            arguments,
        },
    )
}

/// Drops what is written.
struct Nowhere;

impl Output for Nowhere {
    fn put(&mut self, _bytes: &[u8]) {}
}

/// The type of an argument.
#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Long,
    Double,
    Pointer,
}

/// Notes the types of numbered arguments, and has none.
#[derive(Default)]
struct Kinds {
    kinds: Vec<Kind>,
    next: usize,
    is_numbered: bool,
}

impl Kinds {
    fn note(&mut self, kind: Kind) {
        if self.next >= self.kinds.len() {
            // C leaves open what it means when a format leaves out numbers.
            self.kinds.resize(self.next + 1, Kind::Integer);
        }
        self.kinds[self.next] = kind;
        self.next += 1;
    }
}

impl Arguments for Kinds {
    fn select(&mut self, number: usize) {
        self.next = number - 1;
        self.is_numbered = true;
    }

    fn integer(&mut self, wide: bool) -> i64 {
        self.note(if wide { Kind::Long } else { Kind::Integer });
        0
    }

    fn double(&mut self) -> f64 {
        self.note(Kind::Double);
        0.0
    }

    fn pointer(&mut self) -> usize {
        self.note(Kind::Pointer);
        0
    }

    fn string(&mut self, _pointer: usize, _limit: Option<usize>) -> Vec<u8> {
        Vec::new()
    }

    fn wide_string(&mut self, _pointer: usize, _limit: Option<usize>) -> Vec<u8> {
        Vec::new()
    }

    fn store(&mut self, _pointer: usize, _bytes: usize, _count: i64) {}

    fn error_message(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn refuse(&mut self) {}
}

/// An argument.
#[derive(Clone, Copy)]
enum Value {
    Integer(i64),
    Double(f64),
    Pointer(usize),
}

/// Arguments that are picked by their numbers.
struct Numbered<'a> {
    values: Vec<Value>,
    next: usize,
    /// For what is behind pointers.
    arguments: &'a mut dyn Arguments,
}

impl Numbered<'_> {
    fn value(&mut self) -> Value {
        let value = self.values.get(self.next).copied();
        self.next += 1;
        value.unwrap_or(Value::Integer(0))
    }
}

// A format that gives one number two types finds the value of the last of them, and of the other
// only zero.
impl Arguments for Numbered<'_> {
    fn select(&mut self, number: usize) {
        self.next = number - 1;
    }

    fn integer(&mut self, wide: bool) -> i64 {
        match self.value() {
            Value::Integer(value) if wide => value,
            Value::Integer(value) => (value as i32).into(),
            Value::Pointer(value) => value as i64,
            Value::Double(_) => 0,
        }
    }

    fn double(&mut self) -> f64 {
        match self.value() {
            Value::Double(value) => value,
            _ => 0.0,
        }
    }

    fn pointer(&mut self) -> usize {
        match self.value() {
            Value::Pointer(value) => value,
            _ => 0,
        }
    }

    fn string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8> {
        self.arguments.string(pointer, limit)
    }

    fn wide_string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8> {
        self.arguments.wide_string(pointer, limit)
    }

    fn store(&mut self, pointer: usize, bytes: usize, count: i64) {
        self.arguments.store(pointer, bytes, count);
    }

    fn error_message(&mut self) -> Vec<u8> {
        self.arguments.error_message()
    }

    fn refuse(&mut self) {
        self.arguments.refuse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of each argument, in order: 1, 2, …; a double is that number and a half.
    struct Counter(i64);

    impl Counter {
        fn next(&mut self) -> i64 {
            self.0 += 1;
            self.0
        }
    }

    impl Arguments for Counter {
        fn select(&mut self, _number: usize) {
            panic!("a list is read in order");
        }
        fn integer(&mut self, wide: bool) -> i64 {
            self.next() + if wide { 100 } else { 0 }
        }
        fn double(&mut self) -> f64 {
            self.next() as f64 + 0.5
        }
        fn pointer(&mut self) -> usize {
            self.next() as usize
        }
        fn string(&mut self, pointer: usize, limit: Option<usize>) -> Vec<u8> {
            std::format!("text{pointer}:{limit:?}").into_bytes()
        }
        fn wide_string(&mut self, pointer: usize, _limit: Option<usize>) -> Vec<u8> {
            std::format!("wide{pointer}").into_bytes()
        }
        fn store(&mut self, pointer: usize, _bytes: usize, count: i64) {
            assert_eq!((pointer, count), (2, 10));
        }
        fn error_message(&mut self) -> Vec<u8> {
            b"error".to_vec()
        }
        fn refuse(&mut self) {}
    }

    #[track_caller]
    fn check(format: &str, wanted: &str) {
        let mut text = Vec::new();
        let length = print(&mut text, format.as_bytes(), &mut Counter(0));
        assert_eq!(core::str::from_utf8(&text), Ok(wanted));
        assert_eq!(length, wanted.len());
    }

    #[test]
    fn numbers_pick_arguments_of_any_type() {
        check("%d %ld", "1 102");
        check("%2$d %1$ld", "2 101");
        check("%3$s %1$.1f %2$ls", "text3:None 1.5 wide2");
        check("%1$d %1$d", "1 1");
        check("[%1$*2$d]", "[ 1]");
        check("[%1$.*2$s]", "[text1:Some(2)]");
        check("[%2$-*1$d]", "[2]");
        // A number that is left out takes a place.
        check("%3$d", "3");
        check("%1$03d$", "001$");
        check("a$b %d", "a$b 1");
        check("%1$s%2$n", "text1:None");
    }
}
