//! The expressions of `$((…))`: C's operators on 64-bit integers that wrap around.

use alloc::format;
use alloc::string::{String, ToString};

/// The variables that an expression reads and sets.
pub trait Variables {
    /// The value of a variable as text; `None` when it is not set.
    fn get(&self, name: &str) -> Option<String>;
    /// Sets a variable. The error is a message.
    fn set(&mut self, name: &str, value: String) -> Result<(), String>;
}

/// Depth of parentheses and unary operators, and of variables that name other expressions.
const MAX_DEPTH: u32 = 50;

/// The value of `text`.
pub fn evaluate(text: &str, variables: &mut dyn Variables) -> Result<i64, String> {
    let mut parser = Parser {
        text,
        rest: text,
        variables,
        depth: 0,
        skip: 0,
    };
    parser.space();
    if parser.rest.is_empty() {
        return Ok(0);
    }
    let value = parser.assignment()?;
    if parser.rest.is_empty() {
        Ok(value)
    } else {
        parser.fail()
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    variables: &'a mut dyn Variables,
    depth: u32,
    /// Greater than zero inside a branch that is not evaluated (`0 && x++`).
    skip: u32,
}

/// Binary operators by precedence, loosest first. Within a level longer spellings come first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Whether the characters after an operator make it another operator.
fn continues(operator: &str, after: &str) -> bool {
    let next = after.bytes().next();
    match operator {
        "|" => matches!(next, Some(b'|' | b'=')),
        "&" => matches!(next, Some(b'&' | b'=')),
        "<" => next == Some(b'<'),
        ">" => next == Some(b'>'),
        "^" | "<<" | ">>" | "+" | "-" | "*" | "/" | "%" => next == Some(b'='),
        _ => false,
    }
}

const ASSIGNMENTS: &[&str] = &[
    "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "=",
];

impl Parser<'_> {
    fn fail<T>(&self) -> Result<T, String> {
        if self.rest.is_empty() {
            return Err(format!("arithmetic: `{}` ends too early", self.text));
        }
        Err(format!(
            "arithmetic: unexpected `{}` in `{}`",
            self.rest, self.text
        ))
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, operator: &str) -> bool {
        let Some(after) = self.rest.strip_prefix(operator) else {
            return false;
        };
        self.rest = after;
        self.space();
        true
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("arithmetic: nested deeper than {MAX_DEPTH} levels"));
        }
        Ok(())
    }

    fn name_length(&self) -> usize {
        let mut bytes = self.rest.bytes();
        if !bytes
            .next()
            .is_some_and(|b| b == b'_' || b.is_ascii_alphabetic())
        {
            return 0;
        }
        1 + bytes
            .take_while(|b| *b == b'_' || b.is_ascii_alphanumeric())
            .count()
    }

    fn assignment(&mut self) -> Result<i64, String> {
        self.enter()?;
        let value = self.assignment_inner();
        self.depth -= 1;
        value
    }

    fn assignment_inner(&mut self) -> Result<i64, String> {
        let length = self.name_length();
        if length > 0 {
            let (name, after) = self.rest.split_at(length);
            let after = after.trim_start();
            let operator = ASSIGNMENTS.iter().find(|text| after.starts_with(**text));
            if let Some(operator) = operator
                && !after.starts_with("==")
            {
                self.rest = &after[operator.len()..];
                self.space();
                let right = self.assignment()?;
                let value = match operator.strip_suffix('=') {
                    None | Some("") => right,
                    Some(operator) => {
                        let left = self.variable(name)?;
                        self.apply(left, operator, right)?
                    }
                };
                self.store(name, value)?;
                return Ok(value);
            }
        }
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        self.skip += u32::from(condition == 0);
        let yes = self.assignment()?;
        self.skip -= u32::from(condition == 0);
        if !self.eat(":") {
            return self.fail();
        }
        self.skip += u32::from(condition != 0);
        let no = self.assignment()?;
        self.skip -= u32::from(condition != 0);
        Ok(if condition != 0 { yes } else { no })
    }

    fn binary(&mut self, level: usize) -> Result<i64, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let found = operators.iter().find(|operator| {
                self.rest
                    .strip_prefix(**operator)
                    .is_some_and(|after| !continues(operator, after))
            });
            let Some(operator) = found else {
                return Ok(left);
            };
            self.eat(operator);
            let decided = match *operator {
                "&&" => left == 0,
                "||" => left != 0,
                _ => false,
            };
            self.skip += u32::from(decided);
            let right = self.binary(level + 1)?;
            self.skip -= u32::from(decided);
            left = self.apply(left, operator, right)?;
        }
    }

    fn apply(&self, left: i64, operator: &str, right: i64) -> Result<i64, String> {
        Ok(match operator {
            "||" => i64::from(left != 0 || right != 0),
            "&&" => i64::from(left != 0 && right != 0),
            "|" => left | right,
            "^" => left ^ right,
            "&" => left & right,
            "==" => i64::from(left == right),
            "!=" => i64::from(left != right),
            "<=" => i64::from(left <= right),
            ">=" => i64::from(left >= right),
            "<" => i64::from(left < right),
            ">" => i64::from(left > right),
            "<<" => left.wrapping_shl(right as u32),
            ">>" => left.wrapping_shr(right as u32),
            "+" => left.wrapping_add(right),
            "-" => left.wrapping_sub(right),
            "*" => left.wrapping_mul(right),
            "/" | "%" if right == 0 => {
                if self.skip > 0 {
                    return Ok(0);
                }
                return Err(format!("arithmetic: division by zero in `{}`", self.text));
            }
            "/" => left.wrapping_div(right),
            _ => left.wrapping_rem(right),
        })
    }

    fn unary(&mut self) -> Result<i64, String> {
        self.enter()?;
        let value = self.unary_inner();
        self.depth -= 1;
        value
    }

    fn unary_inner(&mut self) -> Result<i64, String> {
        for (operator, step) in [("++", 1), ("--", -1)] {
            let Some(after) = self.rest.strip_prefix(operator) else {
                continue;
            };
            self.rest = after.trim_start();
            let length = self.name_length();
            if length == 0 {
                return self.fail();
            }
            let name = &self.rest[..length];
            self.rest = self.rest[length..].trim_start();
            let value = self.variable(name)?.wrapping_add(step);
            self.store(name, value)?;
            return Ok(value);
        }
        if self.eat("!") {
            return Ok(i64::from(self.unary()? == 0));
        }
        if self.eat("~") {
            return Ok(!self.unary()?);
        }
        if self.eat("-") {
            return Ok(self.unary()?.wrapping_neg());
        }
        if self.eat("+") {
            return self.unary();
        }
        if self.eat("(") {
            let value = self.assignment()?;
            return if self.eat(")") {
                Ok(value)
            } else {
                self.fail()
            };
        }
        let length = self.name_length();
        if length > 0 {
            let name = &self.rest[..length];
            self.rest = self.rest[length..].trim_start();
            let value = self.variable(name)?;
            for (operator, step) in [("++", 1), ("--", -1)] {
                if self.eat(operator) {
                    self.store(name, value.wrapping_add(step))?;
                }
            }
            return Ok(value);
        }
        let length = self
            .rest
            .bytes()
            .take_while(u8::is_ascii_alphanumeric)
            .count();
        let (digits, after) = self.rest.split_at(length);
        let Some(value) = constant(digits) else {
            return self.fail();
        };
        self.rest = after;
        self.space();
        Ok(value)
    }

    /// The value of a variable: a number, or the result of the expression in it.
    fn variable(&mut self, name: &str) -> Result<i64, String> {
        let text = self.variables.get(name).unwrap_or_default();
        let text = text.trim();
        if text.is_empty() {
            return Ok(0);
        }
        if let Some(value) = constant(text.strip_prefix('-').unwrap_or(text)) {
            return Ok(if text.starts_with('-') {
                value.wrapping_neg()
            } else {
                value
            });
        }
        self.enter()?;
        let mut inner = Parser {
            text,
            rest: text,
            variables: &mut *self.variables,
            depth: self.depth,
            skip: self.skip,
        };
        let value = inner.assignment()?;
        if !inner.rest.is_empty() {
            return inner.fail();
        }
        self.depth -= 1;
        Ok(value)
    }

    fn store(&mut self, name: &str, value: i64) -> Result<(), String> {
        if self.skip > 0 {
            return Ok(());
        }
        self.variables.set(name, value.to_string())
    }
}

/// Parses a constant: decimal, `0x…` or `0…`.
fn constant(digits: &str) -> Option<i64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|value| value as i64);
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return u64::from_str_radix(digits, 8)
            .ok()
            .map(|value| value as i64);
    }
    digits.parse::<u64>().ok().map(|value| value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    impl Variables for BTreeMap<String, String> {
        fn get(&self, name: &str) -> Option<String> {
            BTreeMap::get(self, name).cloned()
        }

        fn set(&mut self, name: &str, value: String) -> Result<(), String> {
            self.insert(name.into(), value);
            Ok(())
        }
    }

    #[test]
    fn values() {
        let mut variables = BTreeMap::new();
        variables.insert("x".into(), "5".into());
        variables.insert("minus".into(), "-7".into());
        variables.insert("e".into(), "x + 1".into());
        for (text, expected) in [
            ("", 0),
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("10-4-3", 3),
            ("7/2 + 7%3", 4),
            ("-7/2", -3),
            ("1<<4>>1", 8),
            ("0x10 + 010", 24),
            ("x*2", 10),
            ("minus+1", -6),
            ("e*2", 12),
            ("unset+1", 1),
            ("1<2 && 2<=2 || 0", 1),
            ("1==1 != 0", 1),
            ("5 & 3 | 8 ^ 1", 9),
            ("!0 + ~0", 0),
            ("- -3", 3),
            ("1 ? 2 : 3", 2),
            ("0 ? 2 : 1 ? 4 : 5", 4),
            ("y = 3", 3),
            ("y += 2", 5),
            ("y++ + ++y", 12),
            ("y", 7),
            ("0 && (y = 100)", 0),
            ("y", 7),
            ("0 && 1/0", 0),
            ("9223372036854775807 + 1", i64::MIN),
            ("1 << 65", 2),
            ("(-9223372036854775807 - 1) / -1", i64::MIN),
        ] {
            assert_eq!(evaluate(text, &mut variables), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors() {
        let mut variables = BTreeMap::new();
        variables.insert("loop".into(), "loop".into());
        for (text, message) in [
            ("1/0", "division by zero"),
            ("1 % 0", "division by zero"),
            ("1 +", "ends too early"),
            ("1 2", "unexpected `2`"),
            ("(1", "ends too early"),
            ("08", "unexpected `08`"),
            ("1 ? 2", "ends too early"),
            ("loop", "nested"),
            ("++1", "unexpected `1`"),
            ("99999999999999999999", "unexpected"),
        ] {
            let error = evaluate(text, &mut variables).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        let deep = "(".repeat(100_000);
        assert!(
            evaluate(&deep, &mut variables)
                .unwrap_err()
                .contains("nested")
        );
        assert!(evaluate(&"-".repeat(99_999), &mut variables).is_err());
        assert!(evaluate(&"a=".repeat(99_999), &mut variables).is_err());
    }
}
