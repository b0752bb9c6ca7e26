//! The 48-bit generator of `drand48` and its kin: the next state is the low 48 bits of the last
//! one times a factor, plus a constant. Also the generator of `rand_r`.

/// All states are below this.
const LIMIT: u64 = 1 << 48;

/// A generator.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The last state.
    pub state: u64,
    /// The multiplier.
    pub factor: u64,
    /// The increment.
    pub addend: u64,
}

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

impl Generator {
    /// The factor and constant that POSIX names, and the state with which Linux's libraries begin.
    pub const fn new() -> Self {
        Generator {
            state: 0,
            factor: 0x5_DEEC_E66D,
            addend: 0xB,
        }
    }

    /// The state after `state`.
    pub fn after(&self, state: u64) -> u64 {
        state.wrapping_mul(self.factor).wrapping_add(self.addend) % LIMIT
    }

    /// Restarts the generator with a seed; resets the factor and the constant, too.
    pub fn seed(&mut self, seed: u32) {
        *self = Self::new();
        self.state = u64::from(seed) << 16 | 0x330E;
    }
}

/// Makes a state of three words, the lowest first.
pub fn state_of(words: [u16; 3]) -> u64 {
    words
        .iter()
        .rev()
        .fold(0, |state, word| state << 16 | u64::from(*word))
}

/// Splits a state into three words, the lowest first.
pub fn words_of(state: u64) -> [u16; 3] {
    [state as u16, (state >> 16) as u16, (state >> 32) as u16]
}

/// A number of at least 0 and below 1.
pub fn fraction(state: u64) -> f64 {
    state as f64 / LIMIT as f64
}

/// A number of at least 0 and below 2^31.
pub fn positive(state: u64) -> i64 {
    (state >> 17) as i64
}

/// A signed number of 32 bits.
pub fn signed(state: u64) -> i64 {
    i64::from((state >> 16) as u32 as i32)
}

/// The state of `rand_r` after `state`, and the number below 2^31 that it gives. The state passes
/// through all numbers of 32 bits, because the increment is odd; the shifts and products, which
/// have an inverse, hide that it is a plain sum (murmur3's last step).
pub fn of_caller(state: u32) -> (u32, u32) {
    let state = state.wrapping_add(0x9E37_79B9);
    let mut value = state;
    value = (value ^ value >> 16).wrapping_mul(0x85EB_CA6B);
    value = (value ^ value >> 13).wrapping_mul(0xC2B2_AE35);
    (state, (value ^ value >> 16) >> 1)
}

#[cfg(target_os = "redox")]
pub(crate) use c::{FORMER, GENERATOR};

#[cfg(target_os = "redox")]
mod c {
    use core::ffi::{c_double, c_long};

    use super::{Generator, fraction, positive, signed, state_of, words_of};
    use crate::sync::Shared;

    pub(crate) static GENERATOR: Shared<Generator> = Shared::new(Generator::new());
    /// The state that `seed48` replaced.
    pub(crate) static FORMER: Shared<[u16; 3]> = Shared::new([0; 3]);

    fn own() -> u64 {
        GENERATOR.with(|generator| {
            generator.state = generator.after(generator.state);
            generator.state
        })
    }

    /// # Safety
    /// `words` are the caller's three words.
    unsafe fn theirs(words: *mut [u16; 3]) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            let state = GENERATOR.with(|generator| generator.after(state_of(*words)));
            *words = words_of(state);
            state
        }
    }

    macro_rules! numbers {
        ($($own:ident $theirs:ident $type:ty = $of:path;)*) => { $(
            #[unsafe(no_mangle)]
            extern "C" fn $own() -> $type {
                $of(own())
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn $theirs(words: *mut [u16; 3]) -> $type {
                // SAFETY: the same contract.
                $of(unsafe { theirs(words) })
            }
        )* };
    }

    numbers! {
        drand48 erand48 c_double = fraction;
        lrand48 nrand48 c_long = positive;
        mrand48 jrand48 c_long = signed;
    }

    #[unsafe(no_mangle)]
    extern "C" fn srand48(seed: c_long) {
        GENERATOR.with(|generator| generator.seed(seed as u32));
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn seed48(words: *const [u16; 3]) -> *mut u16 {
        // SAFETY: the caller's three words.
        let state = state_of(unsafe { *words });
        let before = GENERATOR.with(|generator| {
            let before = generator.state;
            *generator = Generator::new();
            generator.state = state;
            before
        });
        FORMER.with(|former| {
            *former = words_of(before);
            former.as_mut_ptr()
        })
    }

    /// Sets state, factor (three words each, the lowest first) and constant.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn lcong48(words: *const [u16; 7]) {
        // SAFETY: the caller's seven words.
        let [a, b, c, d, e, f, addend] = unsafe { *words };
        GENERATOR.with(|generator| {
            *generator = Generator {
                state: state_of([a, b, c]),
                factor: state_of([d, e, f]),
                addend: addend.into(),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_posix() {
        let mut generator = Generator::new();
        generator.seed(1);
        generator.state = generator.after(generator.state);
        assert_eq!(generator.state, 0x0AA8_4949_5101);
        assert!((fraction(generator.state) - 0.041_630_344_771_878_2).abs() < 1e-15);
    }

    #[test]
    fn the_states_of_callers_do_not_repeat_soon() {
        const COUNT: usize = 1_000_000;
        let (mut state, mut states) = (1, std::collections::HashSet::new());
        let mut ones = [0; 31];
        for _ in 0..COUNT {
            let (after, value) = of_caller(state);
            state = after;
            states.insert(state);
            for (bit, ones) in ones.iter_mut().enumerate() {
                *ones += value >> bit & 1;
            }
        }
        assert_eq!(states.len(), COUNT);
        // Each bit is set in half of the numbers, within ten standard deviations.
        let half = COUNT as u32 / 2;
        assert!(
            ones.iter().all(|count| count.abs_diff(half) < 5_000),
            "{ones:?}"
        );
    }

    #[test]
    fn words_and_states_are_the_same() {
        assert_eq!(words_of(0x1234_ABCD_330E), [0x330E, 0xABCD, 0x1234]);
        assert_eq!(state_of([0x330E, 0xABCD, 0x1234]), 0x1234_ABCD_330E);
    }

    #[test]
    fn numbers_have_their_ranges() {
        let highest = LIMIT - 1;
        assert!(fraction(highest) < 1.0);
        assert_eq!(positive(highest), 0x7fff_ffff);
        assert_eq!(signed(highest), -1);
        assert_eq!((positive(0), signed(0)), (0, 0));
    }
}
