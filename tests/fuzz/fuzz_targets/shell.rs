//! Scripts: what the shell accepts is accepted as well when it is printed, and printed the same
//! again: that is how it hands parts of a script to another shell.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::file_name::{self, Pattern, Rules};
use sh::{arith, parser};

/// Variables that are all 7.
struct Sevens;

impl arith::Variables for Sevens {
    fn get(&self, _name: &str) -> Option<String> {
        Some("7".into())
    }
    fn set(&mut self, _name: &str, _value: String) -> Result<(), String> {
        Ok(())
    }
}

fuzz_target!(|text: &str| {
    if let Ok(list) = parser::parse(text) {
        let printed = list.to_string();
        let again = parser::parse(&printed);
        let again = again.unwrap_or_else(|error| panic!("{error} in {printed:?}, from {list:?}"));
        // Neighbouring literals may have become one.
        assert_eq!(again.to_string(), printed);
        assert_eq!(parser::parse(&printed), Ok(again));
    }
    let _ = arith::evaluate(text, &mut Sevens);
    if text.len() < 64
        && let Some((pattern, subject)) = text.split_once('\n')
    {
        for bits in 0..=Rules::all().bits() {
            let rules = Rules::from_bits_truncate(bits);
            let pattern = Pattern::new(pattern.as_bytes(), rules);
            let _ = pattern.matches(subject.as_bytes());
            assert!(pattern.is_special() || pattern.matches(&pattern.literal()));
        }
        let mut literal = String::new();
        file_name::escape(subject, &mut literal);
        assert!(
            Pattern::plain(&literal).matches(subject.as_bytes()),
            "{literal:?}"
        );
    }
});
