//! Regular expressions as `regex.h` wants them: the leftmost match, and of several that begin there
//! the longest.
//!
//! Two searches give that. The first one finds where the leftmost match begins. The second one
//! begins there, follows all ways of matching at once, and keeps the last one to arrive. Of several
//! ways that end there it takes the one by which each repetition and alternative, from left to
//! right, is the first that the expression names: the groups are then not always POSIX's.
//!
//! Neither search tries anything twice: the time is at worst proportional to the size of the
//! compiled expression times the text.

use alloc::vec::Vec;

use bitflags::bitflags;
use patterns::expression::{self, Syntax, Wrong};
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

bitflags! {
    /// How an expression is read: the flags of `regcomp`, with relibc's numbers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Rules: i32 {
        /// Extended, not basic.
        const EXTENDED = 1;
        /// Upper and lower case are the same.
        const ICASE = 2;
        /// The places of matches are not wanted.
        const NOSUB = 4;
        /// `^` and `$` match at each line, `.` and `[^…]` do not match its end.
        const NEWLINE = 8;
    }
}

/// Most bytes of an expression.
const LONGEST: usize = 64 << 10;
/// Most bytes of a compiled expression.
const MOST_COMPILED: usize = 256 << 10;
/// Most bytes that a search may need besides.
const MOST_NEEDED: usize = 8 << 20;
/// How deep the parts of a rewritten expression are in each other at most: four for each
/// parenthesis.
const DEEPEST: u32 = 4 * expression::DEEPEST as u32 + 16;

/// Why an expression cannot be compiled, or a search not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is not UTF-8.
    Text,
    /// Something in it is wrong.
    Wrong(Wrong),
    /// It is too large.
    Space,
}

/// Where a group begins and ends.
pub type Place = Option<(usize, usize)>;

/// A compiled expression.
pub struct Compiled {
    first: PikeVM,
    longest: PikeVM,
    groups: usize,
    rules: Rules,
}

impl Compiled {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is not valid or too large.
    pub fn new(text: &[u8], rules: Rules) -> Result<Self, Failure> {
        if text.len() > LONGEST {
            return Err(Failure::Space);
        }
        let text = core::str::from_utf8(text).map_err(|_| Failure::Text)?;
        let by_lines = rules.contains(Rules::NEWLINE);
        let syntax = match rules.contains(Rules::EXTENDED) {
            true => Syntax::Extended,
            false => Syntax::Basic,
        };
        let rewritten = expression::rewrite(text, syntax, by_lines).map_err(Failure::Wrong)?;
        let syntax = syntax::Config::new()
            .utf8(false)
            .case_insensitive(rules.contains(Rules::ICASE))
            .multi_line(by_lines)
            .dot_matches_new_line(!by_lines)
            .nest_limit(DEEPEST);
        let captures = match rules.contains(Rules::NOSUB) {
            true => WhichCaptures::Implicit,
            false => WhichCaptures::All,
        };
        let limits = thompson::Config::new()
            .utf8(false)
            .which_captures(captures)
            .nfa_size_limit(Some(MOST_COMPILED));
        let mut compiler = NFA::compiler();
        let compiler = compiler.configure(limits).syntax(syntax);
        // What has been rewritten has no errors but its size.
        let nfa = compiler.build(&rewritten.source);
        let nfa = nfa.map_err(|_| Failure::Space)?;
        // Two tables of places, with a row for each state.
        let row = nfa.group_info().slot_len() * size_of::<usize>();
        if nfa.states().len().saturating_mul(2 * row) > MOST_NEEDED {
            return Err(Failure::Space);
        }
        let machine = |kind| {
            let config = PikeVM::config().match_kind(kind);
            let machine = PikeVM::builder()
                .configure(config)
                .build_from_nfa(nfa.clone());
            machine.map_err(|_| Failure::Space)
        };
        Ok(Compiled {
            first: machine(MatchKind::LeftmostFirst)?,
            longest: machine(MatchKind::All)?,
            groups: rewritten.groups,
            rules,
        })
    }

    /// How many parts in parentheses the expression has.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Whether the places of matches are wanted.
    pub fn has_places(&self) -> bool {
        !self.rules.contains(Rules::NOSUB)
    }

    /// The places of the match in a text and of its groups, at most as many as wanted; `None` if
    /// there is no match. A line begins at the beginning of the text if `begins`, and one ends at
    /// its end if `ends`. Bytes that are not UTF-8 match nothing.
    ///
    /// # Errors
    /// There is no memory.
    pub fn find(
        &self,
        text: &[u8],
        begins: bool,
        ends: bool,
        wanted: usize,
    ) -> Result<Option<Vec<Place>>, Failure> {
        // A byte that is neither of a word nor the end of a line keeps an end of the text from
        // counting as one.
        let (before, behind) = (usize::from(!begins), usize::from(!ends));
        let mut copy = Vec::new();
        let whole = match before + behind {
            0 => text,
            more => {
                let room = copy.try_reserve_exact(text.len() + more);
                room.map_err(|_| Failure::Space)?;
                copy.extend(core::iter::repeat_n(0, before));
                copy.extend(text);
                copy.extend(core::iter::repeat_n(0, behind));
                &copy
            }
        };
        let end = before + text.len();
        let input = Input::new(whole).range(before..end);
        let mut cache = Cache::new(&self.first);
        let wanted = wanted.min(self.groups + 1);
        let mut slots = [None; 2];
        let earliest = input.clone().earliest(wanted == 0);
        let found = self.first.search_slots(&mut cache, &earliest, &mut slots);
        let begin = match (found, slots[0]) {
            (Some(_), Some(begin)) => begin.get(),
            _ => return Ok(None),
        };
        let mut places = Vec::with_capacity(wanted);
        if wanted > 0 {
            let input = input.range(begin..end).anchored(Anchored::Yes);
            let mut slots: Vec<Option<NonMaxUsize>> = Vec::new();
            slots.resize(2 * wanted, None);
            let _ = self.longest.search_slots(&mut cache, &input, &mut slots);
            let place = |slot: Option<NonMaxUsize>| Some(slot?.get() - before);
            let pairs = slots.chunks_exact(2);
            places.extend(pairs.map(|pair| Some((place(pair[0])?, place(pair[1])?))));
        }
        Ok(Some(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// The places of the match and of all groups, as `(0,2)(1,2)(?,?)`; empty if there is no match.
    fn places(text: &str, rules: Rules, subject: &str) -> String {
        let compiled = Compiled::new(text.as_bytes(), rules);
        let compiled = compiled.unwrap_or_else(|failure| panic!("{text}: {failure:?}"));
        let found = compiled.find(subject.as_bytes(), true, true, usize::MAX);
        let places = found.unwrap().unwrap_or_default().into_iter();
        let text = places.map(|place| match place {
            Some((begin, end)) => format!("({begin},{end})"),
            None => String::from("(?,?)"),
        });
        text.collect()
    }

    #[test]
    fn the_leftmost_longest_match() {
        let (basic, extended) = (Rules::empty(), Rules::EXTENDED);
        for (text, rules, subject, expected) in [
            ("a|ab", extended, "xabc", "(1,3)"),
            ("ab|abcd|abc", extended, "abcd", "(0,4)"),
            ("xfoo|foobar", extended, "xfoobar", "(0,4)"),
            ("a*", basic, "baa", "(0,0)"),
            ("a*|b", extended, "b", "(0,1)"),
            ("(a|ab)(c|bcd)", extended, "abcd", "(0,4)(0,1)(1,4)"),
            (
                "(wee|week)(knights|night)",
                extended,
                "weeknights",
                "(0,10)(0,3)(3,10)",
            ),
            ("\\(a\\{2,3\\}\\)\\(a*\\)", basic, "aaaa", "(0,4)(0,3)(3,4)"),
            ("((a)(b)?)*", extended, "aba", "(0,3)(2,3)(2,3)(1,2)"),
            ("(a)|(b)", extended, "b", "(0,1)(?,?)(0,1)"),
            ("()b", extended, "ab", "(1,2)(1,1)"),
            ("x*", basic, "", "(0,0)"),
            ("^$", basic, "", "(0,0)"),
            ("^a.c$", basic, "a\nc", "(0,3)"),
            ("[[:digit:]]{3,}", extended, "a12b3456", "(4,8)"),
            ("ä.", basic, "aäö", "(1,5)"),
        ] {
            assert_eq!(
                places(text, rules, subject),
                expected,
                "{text} in {subject}"
            );
        }
        let lines = Rules::EXTENDED | Rules::NEWLINE;
        assert_eq!(places("^b[^c]*", lines, "a\nbb\nc"), "(2,4)");
        assert_eq!(places("a$", lines, "a\nb"), "(0,1)");
        assert_eq!(places("a.b", lines, "a\nb"), "");
        let cases = Rules::EXTENDED | Rules::ICASE;
        assert_eq!(places("[a-c]Ä", cases, "xBä"), "(1,4)");
        assert_eq!(places("(a)b", lines | Rules::NOSUB, "ab"), "(0,2)(?,?)");
    }

    #[test]
    fn ends_that_count_and_ends_that_do_not() {
        let find = |text: &[u8], subject: &[u8], begins, ends| {
            let compiled = Compiled::new(text, Rules::EXTENDED | Rules::NEWLINE).unwrap();
            let found = compiled.find(subject, begins, ends, 1).unwrap();
            found.map(|places| places[0].unwrap())
        };
        assert_eq!(find(b"^a", b"aa", true, false), Some((0, 1)));
        assert_eq!(find(b"^a", b"aa", false, true), None);
        assert_eq!(find(b"^a", b"a\na", false, false), Some((2, 3)));
        assert_eq!(find(b"a$", b"aa", false, true), Some((1, 2)));
        assert_eq!(find(b"a$", b"aa", false, false), None);
        assert_eq!(find(b"a*", b"", false, false), Some((0, 0)));
        assert_eq!(find(b"a+", b"aa", false, false), Some((0, 2)));
        assert_eq!(find(b".b", b"\xffb\xc3\xa4b", true, true), Some((2, 5)));
        assert_eq!(find(b"x*$", b"\xff\xff", true, true), Some((2, 2)));
    }

    /// On little stack; each of these would take hours or gigabytes if there were no limits.
    #[test]
    fn hostile_expressions() {
        let work = || {
            let new = |text: &str| Compiled::new(text.as_bytes(), Rules::EXTENDED);
            let failure = |text: String| new(&text).err();
            let wrong = |wrong| Some(Failure::Wrong(wrong));
            assert_eq!(failure("(".repeat(50_000)), wrong(Wrong::Depth));
            assert_eq!(failure("[".repeat(50_000)), wrong(Wrong::Bracket));
            assert_eq!(failure("a{1,9999}".into()), Some(Failure::Space));
            assert_eq!(failure("a{1,99999}".into()), wrong(Wrong::Interval));
            assert_eq!(
                failure("(((a{99}){99}){99}){99}".into()),
                Some(Failure::Space)
            );
            assert_eq!(
                failure("(((){99}){99}){99}{99}".into()),
                wrong(Wrong::Repetition)
            );
            assert_eq!(failure("()".repeat(30_000)), Some(Failure::Space));
            assert_eq!(failure("(a)".repeat(2_000)), Some(Failure::Space));
            assert_eq!(failure("a".repeat(LONGEST + 1)), Some(Failure::Space));
            assert_eq!(
                Compiled::new(b"\xff", Rules::empty()).err(),
                Some(Failure::Text)
            );
            assert!(new("a{1,255}").is_ok() && new("[^a]{1,255}").is_ok());
            assert!(new(&"(a)".repeat(100)).is_ok());
            // As deep as parentheses may be, with all that can stand around them.
            let deep = "(b|a(".repeat(25) + "x" + &")*c)+".repeat(25);
            assert!(new(&deep).unwrap().find(b"aaaxc", true, true, 99).is_ok());
            let subject = "a".repeat(20_000);
            for text in [
                "(a*)*b",
                "(a|a)*b",
                "(a|aa)+$x",
                "(a?){40}a{40}b",
                "(.*)(.*)(.*)(.*)b",
            ] {
                let found = new(text).unwrap().find(subject.as_bytes(), true, true, 99);
                assert_eq!(found, Ok(None), "{text}");
            }
        };
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(work).unwrap().join().unwrap();
    }

    /// That of a thread in C; a release build takes a fifth of it.
    const STACK: usize = 1 << 20;
}
