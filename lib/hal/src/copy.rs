//! Bulk copies to and from shared memory, by the routine that is fastest here.
//!
//! Which routine that is depends on what runs the code, not on what the processor says it can do.
//! Under QEMU's translator a loop of 8-byte accesses moves 4 to 6 GB/s, `rep movsb` half a
//! gigabyte and vector code two. On hardware the order is another one, and yet another towards
//! memory behind a bus; and the routine that wins in the first cache need not win beyond the last
//! one. So one process measures once ([`crate::measure`]), for each pair of [`Side`]s and each
//! [`SizeClass`], and other programs take over its results ([`Choices::from_numbers`]). Until
//! then, and on processors other than x86-64, the loop is used.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

#[cfg_attr(not(target_arch = "x86_64"), path = "copy/portable.rs")]
mod routines;

/// Copies up to this many bytes always use the loop: every other routine costs more to start.
pub const SMALL_BYTES: usize = 128;

/// Which kind of memory a copy reads or writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Memory of this node.
    Own,
    /// Memory behind a bus: a peer's, or a device's.
    Aperture,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Own => "own",
            Side::Aperture => "aperture",
        })
    }
}

/// Pairs of sides (from, to), in the order of [`Choices::numbers`].
pub(crate) const PAIRS: [(Side, Side); 4] = [
    (Side::Own, Side::Own),
    (Side::Own, Side::Aperture),
    (Side::Aperture, Side::Own),
    (Side::Aperture, Side::Aperture),
];

/// The place of a pair in [`PAIRS`].
pub(crate) const fn pair_index(from: Side, to: Side) -> usize {
    2 * from as usize + to as usize
}

/// The class of a copy by its length: which caches it fits into.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SizeClass {
    /// Below 16 KiB: source and target fit into the first cache.
    Short = 0,
    /// Below 256 KiB: into the second.
    Middle = 1,
    /// All others.
    Long = 2,
}

impl SizeClass {
    /// All of them, in the order of their sizes.
    pub const ALL: [Self; 3] = [Self::Short, Self::Middle, Self::Long];

    /// The class of a copy of this number of bytes.
    #[inline]
    pub const fn of(bytes: usize) -> Self {
        match bytes {
            0..0x4000 => Self::Short,
            0x4000..0x4_0000 => Self::Middle,
            _ => Self::Long,
        }
    }
}

impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "short",
            Self::Middle => "middle",
            Self::Long => "long",
        })
    }
}

/// A way of copying. Processes exchange the numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Routine {
    /// Eight 8-byte loads and stores in each round.
    Words = 0,
    /// 16-byte loads and stores.
    Sse2 = 1,
    /// 32-byte loads and stores.
    Avx = 2,
    /// 16-byte loads, and stores that pass the caches by.
    Streaming = 3,
    /// The processor's string instruction, byte-wise.
    StringBytes = 4,
    /// The processor's string instruction, word-wise.
    StringWords = 5,
}

impl Routine {
    /// All of them; the index of each is its number.
    pub const ALL: [Self; 6] = [
        Self::Words,
        Self::Sse2,
        Self::Avx,
        Self::Streaming,
        Self::StringBytes,
        Self::StringWords,
    ];

    /// The routine with this number; the loop when there is none or this processor lacks it.
    pub fn from_number(number: u8) -> Self {
        let known = Self::ALL.get(usize::from(number)).copied();
        known
            .filter(|routine| routine.is_available())
            .unwrap_or(Self::Words)
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether processor and system have what it needs.
    pub fn is_available(self) -> bool {
        match self {
            Self::Words => true,
            Self::Avx => routines::saves_avx(),
            _ => cfg!(target_arch = "x86_64"),
        }
    }
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Words => "words",
            Self::Sse2 => "sse2",
            Self::Avx => "avx",
            Self::Streaming => "streaming",
            Self::StringBytes => "rep-movsb",
            Self::StringWords => "rep-movsq",
        })
    }
}

/// The routines of one pair of sides, by [`SizeClass`].
pub(crate) type Routines = [Routine; SizeClass::ALL.len()];

/// The routine for each pair of sides and each size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Choices([Routines; 4]);

impl Default for Choices {
    fn default() -> Self {
        Self::of_all(Routine::Words)
    }
}

impl Choices {
    /// Decodes another process's numbers: own to own, own to aperture, aperture to own, aperture
    /// to aperture. Whatever they are, the result can be used.
    pub fn from_numbers(numbers: [u8; 4]) -> Self {
        Self(numbers.map(unpacked))
    }

    /// The same routine everywhere; the loop if it is not available.
    pub fn of_all(routine: Routine) -> Self {
        let routine = Routine::from_number(routine.number());
        Self([[routine; SizeClass::ALL.len()]; PAIRS.len()])
    }

    /// These routines, each available, in the order of [`PAIRS`].
    pub(crate) fn of(routines: [Routines; PAIRS.len()]) -> Self {
        Self(routines)
    }

    /// The numbers, for other processes.
    pub fn numbers(self) -> [u8; 4] {
        self.0.map(packed)
    }

    /// The routine for copies of this number of bytes from one side to the other.
    #[inline]
    pub fn routine(self, from: Side, to: Side, bytes: usize) -> Routine {
        self.0[pair_index(from, to)][SizeClass::of(bytes) as usize]
    }

    /// The routines that this process uses.
    pub fn applied() -> Self {
        let routine = |place: &AtomicU8| Routine::from_number(place.load(Ordering::Relaxed));
        Self(CHOSEN.each_ref().map(|pair| pair.each_ref().map(routine)))
    }

    /// Makes this process use these routines for its [regions](crate::mem::Region) from now on.
    pub fn apply(self) {
        let places = CHOSEN.iter().flatten();
        for (place, routine) in places.zip(self.0.as_flattened()) {
            place.store(routine.number(), Ordering::Relaxed);
        }
    }
}

/// Packs the routines of a pair into one number: that of the short copies' routine, and the
/// distances from it to the other two, counted around. So the number of a routine alone means that
/// routine for all size classes.
fn packed([short, middle, long]: Routines) -> u8 {
    const COUNT: u8 = Routine::ALL.len() as u8;
    let behind = |routine: Routine| (routine.number() + COUNT - short.number()) % COUNT;
    short.number() + COUNT * (behind(middle) + COUNT * behind(long))
}

/// The routines that [`packed`] packed into this number; the loop for those that do not exist
/// here.
fn unpacked(number: u8) -> Routines {
    const COUNT: u8 = Routine::ALL.len() as u8;
    let (short, middle, long) = (
        number % COUNT,
        number / COUNT % COUNT,
        number / COUNT / COUNT,
    );
    if long >= COUNT {
        return [Routine::Words; SizeClass::ALL.len()];
    }
    [0, middle, long].map(|behind| Routine::from_number((short + behind) % COUNT))
}

/// The routines that this process uses, all of which are available: by pair and size class.
static CHOSEN: [[AtomicU8; SizeClass::ALL.len()]; PAIRS.len()] =
    [const { [const { AtomicU8::new(Routine::Words as u8) }; SizeClass::ALL.len()] }; PAIRS.len()];

/// Copies `bytes` bytes of own memory. Neither address needs alignment, and both ranges may change
/// meanwhile. Where the ranges overlap and the target is the higher one, the content becomes a
/// mixture.
///
/// # Safety
/// Both ranges are mapped and nobody holds references into them, save for one that is the
/// caller's own slice.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { copy_between(Side::Own, Side::Own, from, to, bytes) };
}

/// Copies as [`copy`] does, between memory of any kind.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub(crate) unsafe fn copy_between(
    from_side: Side,
    to_side: Side,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
) {
    let chosen = &CHOSEN[pair_index(from_side, to_side)][SizeClass::of(bytes) as usize];
    let number = chosen.load(Ordering::Relaxed);
    let routine = Routine::ALL[usize::from(number)];
    // SAFETY: passed on; `apply` stores numbers of available routines only.
    unsafe { copy_by(routine, from, to, bytes) };
}

/// Copies as [`copy`] does, by a routine of the caller's choice.
///
/// # Safety
/// As for [`copy`]; the routine is [available](Routine::is_available).
#[inline]
pub unsafe fn copy_by(routine: Routine, from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe {
        if bytes <= SMALL_BYTES {
            routines::words(from, to, bytes);
        } else {
            copy_many_by(routine, from, to, bytes);
        }
    }
}

/// Copies as [`copy`] does, at most [`SMALL_BYTES`], for which there is one routine. It copies
/// more, too, but perhaps not by the fastest routine.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { routines::short(from, to, bytes) };
}

/// Prefetches the cache line at an address. Where there is no memory, nothing happens.
#[inline]
pub fn prefetch(address: *const u8) {
    routines::prefetch(address);
}

/// Prefetches the cache line at an address for a store: the processor asks for it before the store
/// has to wait. Where there is no memory, nothing happens.
#[inline]
pub fn prefetch_for_store(address: *const u8) {
    routines::prefetch_for_store(address);
}

/// [`copy_by`] for larger copies. Not inlined: a call costs little beside such a copy.
///
/// # Safety
/// As for [`copy_by`].
#[inline(never)]
unsafe fn copy_many_by(routine: Routine, from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe {
        match routine {
            Routine::Words => routines::words(from, to, bytes),
            Routine::Sse2 => routines::sse2(from, to, bytes),
            Routine::Avx => routines::avx(from, to, bytes),
            Routine::Streaming => routines::streaming(from, to, bytes),
            Routine::StringBytes => routines::string_bytes(from, to, bytes),
            Routine::StringWords => routines::string_words(from, to, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All routines; `None` is the one for short copies.
    fn available() -> impl Iterator<Item = Option<Routine>> {
        let named = Routine::ALL.into_iter().filter(|r| r.is_available());
        named.map(Some).chain([None])
    }

    fn pattern(bytes: usize) -> alloc::vec::Vec<u8> {
        (0..bytes).map(|i| (i * 13 + i / 251) as u8).collect()
    }

    /// Runs every routine at its own entry, which small copies do not reach otherwise.
    unsafe fn run(routine: Option<Routine>, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: passed on.
        unsafe {
            let Some(routine) = routine else {
                return copy_short(from, to, bytes);
            };
            match routine {
                Routine::Words => routines::words(from, to, bytes),
                Routine::Sse2 => routines::sse2(from, to, bytes),
                Routine::Avx => routines::avx(from, to, bytes),
                Routine::Streaming => routines::streaming(from, to, bytes),
                Routine::StringBytes => routines::string_bytes(from, to, bytes),
                Routine::StringWords => routines::string_words(from, to, bytes),
            }
        }
    }

    #[test]
    fn every_length_and_alignment_is_exact() {
        const GUARD: u8 = 0xa5;
        let source = pattern(1024);
        let lengths = (0..=200).chain([255, 256, 257, 319, 320, 511, 512, 700]);
        for length in lengths {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (7, 3), (16, 33), (31, 63), (64, 64)] {
                for routine in available() {
                    let mut target = alloc::vec![GUARD; 1024];
                    // SAFETY: `length` bytes from `from` and to `to` are inside both vectors.
                    unsafe {
                        let place = target.as_mut_ptr().add(to);
                        run(routine, source.as_ptr().add(from), place, length);
                    }
                    let what = (routine, length, from, to);
                    let (head, rest) = target.split_at(to);
                    let (copied, tail) = rest.split_at(length);
                    assert_eq!(copied, &source[from..from + length], "{what:?}");
                    let mut outside = head.iter().chain(tail);
                    assert!(outside.all(|&byte| byte == GUARD), "{what:?}");
                }
            }
        }
    }

    #[test]
    fn overlapping_copies_stay_inside_and_move_down_exactly() {
        for routine in available() {
            for distance in [1, 8, 15, 16, 64, 100, 129] {
                let source = pattern(2000);
                let mut memory = source.clone();
                // SAFETY: all inside the vector.
                unsafe {
                    let base = memory.as_mut_ptr();
                    run(routine, base.add(500 + distance), base.add(500), 1000);
                }
                let moved = &source[500 + distance..1500 + distance];
                assert_eq!(&memory[500..1500], moved, "{routine:?} by {distance}");
                assert_eq!(memory[..500], source[..500]);
                assert_eq!(memory[1500..], source[1500..]);

                let mut memory = source.clone();
                // SAFETY: all inside the vector.
                unsafe {
                    let base = memory.as_mut_ptr();
                    run(routine, base.add(500), base.add(500 + distance), 1000);
                }
                assert_eq!(memory[..500 + distance], source[..500 + distance]);
                assert_eq!(memory[1500 + distance..], source[1500 + distance..]);
            }
        }
    }

    #[test]
    fn numbers_from_outside_are_always_usable() {
        let beyond = Choices::from_numbers([0, 216, 255, 217]);
        assert_eq!(beyond.numbers(), [0, 0, 0, 0]);
        for number in 0..216 {
            let is_available = unpacked(number).iter().all(|one| *one != Routine::Words);
            if is_available {
                assert_eq!(packed(unpacked(number)), number);
            }
        }
        let routines = [Routine::Sse2, Routine::Words, Routine::Streaming];
        assert_eq!(unpacked(packed(routines)), routines);
        for routine in Routine::ALL {
            let number = routine.number();
            assert_eq!(Routine::ALL[usize::from(number)], routine);
            let expected = if routine.is_available() { number } else { 0 };
            assert_eq!(Routine::from_number(number).number(), expected);
        }
        let choices = Choices::from_numbers([0, 1, 3, 4]);
        for bytes in [1, 100_000, 1 << 20] {
            let routine = |from, to| choices.routine(from, to, bytes);
            assert_eq!(routine(Side::Own, Side::Own), Routine::Words);
            assert_eq!(routine(Side::Own, Side::Aperture), Routine::Sse2);
            assert_eq!(routine(Side::Aperture, Side::Own), Routine::Streaming);
            let last = routine(Side::Aperture, Side::Aperture);
            assert_eq!(last, Routine::StringBytes);
        }
    }

    #[test]
    fn each_size_has_a_routine_of_its_own() {
        let routines = [Routine::Words, Routine::Sse2, Routine::StringWords];
        let choices = Choices::of([routines; 4]);
        let known = Choices::from_numbers(choices.numbers());
        for (bytes, routine) in [
            (0, Routine::Words),
            ((16 << 10) - 1, Routine::Words),
            (16 << 10, Routine::Sse2),
            ((256 << 10) - 1, Routine::Sse2),
            (256 << 10, Routine::StringWords),
            (usize::MAX, Routine::StringWords),
        ] {
            assert_eq!(known.routine(Side::Aperture, Side::Own, bytes), routine);
        }
    }
}
