//! Chooses the context that runs next: woken contexts before computing ones.
//!
//! * A context is *woken* when what it waited for has come (an event, a message, a request, an
//!   answer, an interrupt, a futex, a deadline), and when it starts. It runs before all computing
//!   contexts, and interrupts them. Woken contexts take turns of [`WOKEN_TURN_NS`].
//! * A context that has run for [`SLICE_NS`] without waiting *computes* from then on. Computing
//!   contexts take turns of [`SLICE_NS`]; a turn that a wake-up interrupts is continued later.
//! * So that no context starves, a processor that woken contexts have had for [`WOKEN_TURN_NS`] is
//!   *owed* to a computing one for [`COMPUTING_TURN_NS`], and wake-ups do not interrupt that turn.
//!   So computing contexts have at least a quarter of the processor, whatever wakes. What they
//!   have had beyond that is counted, up to one such turn: woken contexts that leave them a
//!   quarter by waiting now and then are not delayed.
//! * A context that yields goes behind the woken contexts; a computing one also owes others of its
//!   kind such a short turn.

use alloc::collections::VecDeque;

/// Turn of a computing context, in nanoseconds; also how long a woken context may run before it
/// counts as computing.
pub const SLICE_NS: u64 = 4_000_000;
/// Turn of a woken context while others wait, in nanoseconds.
pub const WOKEN_TURN_NS: u64 = 300_000;
/// Turn of a computing context while woken ones wait, in nanoseconds.
pub const COMPUTING_TURN_NS: u64 = WOKEN_TURN_NS / WOKEN_SHARES;
/// Shares of a processor that woken contexts may have for each share of computing ones.
const WOKEN_SHARES: u64 = 3;

/// Why a context runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The event that it waited for has come.
    Woken,
    /// It has run for a long time.
    Computing,
}

/// A context that can run, and the time that it has had.
#[derive(Clone, Debug)]
pub struct Run<T> {
    /// The context.
    pub context: T,
    kind: Kind,
    /// Woken: nanoseconds since the wake-up. Computing: nanoseconds of the slice.
    used_ns: u64,
    /// Whether a slice has ended in this turn. Time until that is noticed belongs to the next
    /// slice.
    slice_is_over: bool,
    /// Nanoseconds of this turn.
    turn_ns: u64,
}

impl<T> Run<T> {
    /// Why it runs.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// Turns since the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Of woken contexts.
    pub woken: u64,
    /// Of computing contexts.
    pub computing: u64,
    /// Turns of computing contexts for which woken ones had to wait.
    pub owed: u64,
}

/// The contexts that are ready but not running, for all processors.
#[derive(Debug, Default)]
pub struct Ready<T> {
    /// Woken contexts, and contexts that yielded.
    first: VecDeque<Run<T>>,
    computing: VecDeque<Run<T>>,
    turns: Turns,
}

impl<T> Ready<T> {
    /// No contexts.
    pub const fn new() -> Self {
        Ready {
            first: VecDeque::new(),
            computing: VecDeque::new(),
            turns: Turns {
                woken: 0,
                computing: 0,
                owed: 0,
            },
        }
    }

    /// Makes room for this number of contexts in all, so that each one that can run has a place.
    /// False: there is not enough memory in one piece.
    pub fn make_room(&mut self, contexts: usize) -> bool {
        let mut queues = [&mut self.first, &mut self.computing].into_iter();
        queues.all(|queue| {
            let more = contexts.saturating_sub(queue.len());
            queue.try_reserve(more).is_ok()
        })
    }

    /// Adds a context that was woken, or starts.
    pub fn wake(&mut self, context: T) {
        self.first.push_back(Run {
            context,
            kind: Kind::Woken,
            used_ns: 0,
            slice_is_over: false,
            turn_ns: 0,
        });
    }

    /// Puts back a context that could continue but has to let others run.
    pub fn put_back(&mut self, run: Run<T>) {
        match run.kind {
            Kind::Woken => self.first.push_back(run),
            Kind::Computing if run.slice_is_over => self.computing.push_back(run),
            Kind::Computing => self.computing.push_front(run),
        }
    }

    /// Puts back a context that yields.
    pub fn yields(&mut self, run: Run<T>, processor: &mut Processor) {
        if run.kind == Kind::Computing {
            processor.owe();
        }
        self.first.push_back(run);
    }

    /// Takes the context whose turn it is on a processor, among those that may run there.
    pub fn take(&mut self, processor: &Processor, may_run: impl Fn(&T) -> bool) -> Option<Run<T>> {
        let place = |queue: &VecDeque<Run<T>>| queue.iter().position(|run| may_run(&run.context));
        let (first, computing) = (place(&self.first), place(&self.computing));
        let mut run = match (first, computing) {
            (Some(_), Some(place)) if processor.owes => {
                self.turns.owed += 1;
                self.computing.remove(place)
            }
            (Some(place), _) => self.first.remove(place),
            (None, Some(place)) => self.computing.remove(place),
            (None, None) => None,
        }?;
        run.turn_ns = 0;
        run.slice_is_over = false;
        match run.kind {
            Kind::Woken => self.turns.woken += 1,
            Kind::Computing => self.turns.computing += 1,
        }
        Some(run)
    }

    /// Whether a context waits that may run on a processor.
    pub fn waits(&self, may_run: impl Fn(&T) -> bool) -> bool {
        let mut all = self.first.iter().chain(&self.computing);
        all.any(|run| may_run(&run.context))
    }

    /// The turns so far.
    pub fn turns(&self) -> Turns {
        self.turns
    }

    /// How many nanoseconds a context that runs on a processor may continue: 0 when it has to let
    /// others run, `u64::MAX` when no context waits.
    pub fn rest_ns(
        &self,
        run: &Run<T>,
        processor: &Processor,
        may_run: impl Fn(&T) -> bool,
    ) -> u64 {
        let waits = |queue: &VecDeque<Run<T>>| queue.iter().any(|run| may_run(&run.context));
        let (first, computing) = (waits(&self.first), waits(&self.computing));
        match run.kind {
            _ if !first && !computing => u64::MAX,
            _ if run.slice_is_over => 0,
            // Every turn of a woken context is part of the balance.
            Kind::Woken => {
                let turn = WOKEN_TURN_NS.saturating_sub(run.turn_ns);
                let share = processor.woken_rest_ns();
                match (first, computing) {
                    (true, true) => turn.min(share),
                    (true, false) => turn,
                    _ => share,
                }
            }
            Kind::Computing if first && processor.owes => processor.owed_ns(),
            // It yielded before the waiting contexts were woken.
            Kind::Computing if first => COMPUTING_TURN_NS.saturating_sub(run.turn_ns),
            Kind::Computing => SLICE_NS - run.used_ns,
        }
    }
}

/// The balance of a processor's time between woken and computing contexts.
#[derive(Debug, Default)]
pub struct Processor {
    /// Nanoseconds of woken contexts, less [`WOKEN_SHARES`] times those of computing contexts; at
    /// most [`WOKEN_TURN_NS`] in either direction.
    balance_ns: i64,
    /// Whether it is a computing context's turn.
    owes: bool,
    /// How often it came to owe a turn.
    debts: u64,
}

impl Processor {
    /// A processor on which no context has run yet.
    pub const fn new() -> Self {
        Processor {
            balance_ns: 0,
            owes: false,
            debts: 0,
        }
    }

    /// Counts nanoseconds that a context has run here.
    pub fn ran<T>(&mut self, run: &mut Run<T>, ns: u64) {
        const LIMIT: i64 = WOKEN_TURN_NS.cast_signed();
        match run.kind {
            Kind::Woken => {
                self.balance_ns = self.balance_ns.saturating_add_unsigned(ns).min(LIMIT);
                if self.balance_ns == LIMIT {
                    self.begin_to_owe();
                }
            }
            Kind::Computing => {
                let paid = ns.saturating_mul(WOKEN_SHARES);
                self.balance_ns = self.balance_ns.saturating_sub_unsigned(paid).max(-LIMIT);
                self.owes &= self.balance_ns > 0;
            }
        }
        run.turn_ns = run.turn_ns.saturating_add(ns);
        run.used_ns = run.used_ns.saturating_add(ns);
        if run.used_ns >= SLICE_NS {
            run.kind = Kind::Computing;
            run.used_ns = 0;
            run.slice_is_over = true;
        }
    }

    /// Whether a wake-up interrupts a context that runs here.
    pub fn is_interruptible<T>(&self, run: &Run<T>) -> bool {
        run.kind == Kind::Woken || !self.owes
    }

    /// How often it came to owe a turn to a computing context. Between two such turns, every
    /// wake-up interrupts a computing context.
    pub fn debts(&self) -> u64 {
        self.debts
    }

    fn owe(&mut self) {
        self.balance_ns = WOKEN_TURN_NS.cast_signed();
        self.begin_to_owe();
    }

    fn begin_to_owe(&mut self) {
        self.debts += u64::from(!self.owes);
        self.owes = true;
    }

    /// How many nanoseconds woken contexts may continue before it is the others' turn.
    fn woken_rest_ns(&self) -> u64 {
        WOKEN_TURN_NS.saturating_add_signed(-self.balance_ns)
    }

    /// For how many nanoseconds nothing interrupts a computing context.
    fn owed_ns(&self) -> u64 {
        self.balance_ns.max(0).unsigned_abs().div_ceil(WOKEN_SHARES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const MICROSECOND: u64 = 1000;
    const SECOND: u64 = 1_000_000_000;

    /// The work of a context.
    #[derive(Clone, Copy)]
    enum Program {
        /// Computes for ever.
        Compute,
        /// Computes for this time (ns), then yields, for ever.
        Poll(u64),
        /// Works for a time (ns) after each wake-up; the next one comes a pause after it slept.
        Wake { work: u64, pause: u64 },
    }

    #[test]
    fn room_is_made_for_all_contexts_in_either_queue() {
        let mut ready = Ready::new();
        assert!(ready.make_room(100));
        let places = |ready: &Ready<u32>| (ready.first.capacity(), ready.computing.capacity());
        let before = places(&ready);
        (0..100).for_each(|context| ready.wake(context));
        while let Some(mut run) = ready.take(&Processor::new(), |_| true) {
            run.kind = Kind::Computing;
            ready.computing.push_back(run);
            if ready.first.is_empty() {
                break;
            }
        }
        assert_eq!((ready.computing.len(), places(&ready)), (100, before));
        assert!(!Ready::<u32>::new().make_room(usize::MAX));
    }

    struct Context {
        program: Program,
        /// Processors it may run on, by bits.
        set: u64,
        /// Its work (ns) before it waits or yields.
        left: u64,
        /// When it is woken; `None`: it can run.
        wakes_at: Option<u64>,
        /// When it was woken, until it runs.
        woken_at: Option<u64>,
        longest_wait: u64,
        ran: u64,
    }

    /// Processors that run contexts as the kernel does; time passes in steps.
    struct Machine {
        now: u64,
        contexts: Vec<Context>,
        ready: Ready<usize>,
        processors: Vec<(Processor, Option<Run<usize>>)>,
        /// How late a turn's end is noticed.
        lateness: u64,
        ran_for: u64,
    }

    /// How long a step is: shorter than everything that is looked at.
    const STEP: u64 = 5 * MICROSECOND;

    impl Machine {
        fn new(processors: usize, programs: &[Program]) -> Self {
            let contexts = programs.iter().map(|&program| Context {
                program,
                set: u64::MAX,
                left: work_of(program),
                wakes_at: Some(0),
                woken_at: None,
                longest_wait: 0,
                ran: 0,
            });
            Machine {
                now: 0,
                contexts: contexts.collect(),
                ready: Ready::new(),
                processors: (0..processors).map(|_| (Processor::new(), None)).collect(),
                lateness: 0,
                ran_for: 0,
            }
        }

        /// Those that compute were woken once as well; this was long ago.
        fn settled(mut self) -> Self {
            self = self.run(SECOND / 10);
            for context in &mut self.contexts {
                (context.longest_wait, context.ran) = (0, 0);
            }
            self
        }

        /// Runs for this time; shares are of it.
        fn run(mut self, ns: u64) -> Self {
            let end = self.now + ns;
            self.ran_for = ns;
            while self.now < end {
                self.wake();
                for index in 0..self.processors.len() {
                    self.step(index);
                }
                self.now += STEP;
            }
            self
        }

        /// Wakes the contexts that are due; each interrupts a processor if there is one.
        fn wake(&mut self) {
            for index in 0..self.contexts.len() {
                let context = &mut self.contexts[index];
                if context.wakes_at.is_none_or(|at| at > self.now) {
                    continue;
                }
                context.wakes_at = None;
                context.woken_at = Some(self.now);
                let set = context.set;
                self.ready.wake(index);
                let of_set = self.processors.iter_mut().enumerate();
                let mut of_set = of_set.filter(|(number, _)| set & 1 << number != 0);
                let interrupted = of_set.find(|(_, (processor, current))| {
                    let run = current.as_ref();
                    run.is_none_or(|run| {
                        run.kind() == Kind::Computing && processor.is_interruptible(run)
                    })
                });
                if let Some((_, (_, current))) = interrupted
                    && let Some(run) = current.take()
                {
                    self.ready.put_back(run);
                }
            }
        }

        fn step(&mut self, index: usize) {
            let (processor, current) = &mut self.processors[index];
            let set = 1 << index;
            let may_run = |context: &usize| self.contexts[*context].set & set != 0;
            if let Some(run) = current
                && self.ready.rest_ns(run, processor, may_run) == 0
                && run.turn_ns >= self.lateness
            {
                self.ready.put_back(current.take().unwrap());
            }
            if current.is_none() {
                *current = self.ready.take(processor, may_run);
            }
            let Some(run) = current else {
                return;
            };
            let context = &mut self.contexts[run.context];
            if let Some(since) = context.woken_at.take() {
                context.longest_wait = context.longest_wait.max(self.now - since);
            }
            context.ran += STEP;
            context.left = context.left.saturating_sub(STEP);
            processor.ran(run, STEP);
            if context.left > 0 {
                return;
            }
            context.left = work_of(context.program);
            let run = current.take().unwrap();
            match context.program {
                Program::Compute => unreachable!("it computes for ever"),
                Program::Poll(_) => self.ready.yields(run, processor),
                Program::Wake { pause, .. } => context.wakes_at = Some(self.now + pause),
            }
        }

        /// The share of one processor that a context has had, in percent.
        fn share(&self, context: usize) -> u64 {
            self.contexts[context].ran * 100 / self.ran_for
        }

        fn longest_wait(&self, contexts: impl IntoIterator<Item = usize>) -> u64 {
            let waits = contexts
                .into_iter()
                .map(|context| self.contexts[context].longest_wait);
            waits.max().unwrap()
        }
    }

    fn work_of(program: Program) -> u64 {
        match program {
            Program::Compute => u64::MAX,
            Program::Poll(work) | Program::Wake { work, .. } => work,
        }
    }

    /// Sleeps for the shortest time there is: as good as always awake.
    fn busy(work: u64) -> Program {
        Program::Wake { work, pause: 0 }
    }

    const ECHO: Program = Program::Wake {
        work: 20 * MICROSECOND,
        pause: 50 * MICROSECOND,
    };

    #[test]
    fn a_woken_context_waits_for_no_slice_of_one_that_computes() {
        for processors in [1, 2, 4] {
            for spinning in [1, 2, 8] {
                let mut programs = std::vec![Program::Compute; spinning];
                programs.push(ECHO);
                let machine = Machine::new(processors, &programs).settled().run(SECOND);
                let wait = machine.longest_wait([spinning]);
                assert!(
                    wait <= COMPUTING_TURN_NS,
                    "{processors} processors, {spinning} spinning: {wait} ns"
                );
            }
        }
    }

    #[test]
    fn one_that_computes_has_a_quarter_whatever_wakes() {
        for wakers in [1, 2, 3, 10] {
            let mut programs = std::vec![busy(20 * MICROSECOND); wakers];
            programs.push(Program::Compute);
            let machine = Machine::new(1, &programs).settled().run(SECOND);
            let share = machine.share(wakers);
            assert!((24..=27).contains(&share), "{wakers} wakers: {share} %");
        }
    }

    #[test]
    fn so_it_has_on_several_processors() {
        let mut programs = std::vec![busy(20 * MICROSECOND); 8];
        programs.extend([Program::Compute; 2]);
        let machine = Machine::new(2, &programs).settled().run(SECOND);
        // A quarter of two processors.
        let share = machine.share(8) + machine.share(9);
        assert!(share >= 48, "{share} %");
    }

    #[test]
    fn woken_contexts_have_the_rest() {
        let programs = [busy(20 * MICROSECOND), Program::Compute];
        let machine = Machine::new(1, &programs).settled().run(SECOND);
        assert!(machine.share(0) >= 73, "{} %", machine.share(0));
        let wait = machine.longest_wait([0]);
        assert!(wait <= COMPUTING_TURN_NS, "{wait} ns");
    }

    #[test]
    fn who_leaves_a_quarter_by_waiting_is_not_held_up() {
        let programs = [
            Program::Wake {
                work: 400 * MICROSECOND,
                pause: 140 * MICROSECOND,
            },
            Program::Compute,
        ];
        let machine = Machine::new(1, &programs).settled().run(SECOND);
        assert!(machine.share(0) >= 73, "{} %", machine.share(0));
        assert!(machine.share(1) >= 25, "{} %", machine.share(1));
    }

    #[test]
    fn those_that_compute_share_alike_beside_wake_ups() {
        let programs = [
            Program::Compute,
            Program::Compute,
            Program::Compute,
            ECHO,
            busy(300 * MICROSECOND),
        ];
        let machine = Machine::new(1, &programs).settled().run(2 * SECOND);
        let shares: Vec<u64> = (0..3).map(|context| machine.share(context)).collect();
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        assert!(*least >= 7 && most - least <= 1, "{shares:?} %");
    }

    #[test]
    fn who_computes_between_short_sleeps_has_no_more_than_three_quarters() {
        let programs = [busy(SLICE_NS - STEP), Program::Compute, ECHO];
        let machine = Machine::new(1, &programs).settled().run(2 * SECOND);
        assert!(machine.share(1) >= 24, "{} %", machine.share(1));
        // Beside it another one that is woken waits for its short turn, not for its slice.
        let wait = machine.longest_wait([2]);
        let most = COMPUTING_TURN_NS + WOKEN_TURN_NS + COMPUTING_TURN_NS;
        assert!(wait <= most, "{wait} ns");
    }

    #[test]
    fn who_computes_for_a_slice_after_its_wake_up_counts_as_one_that_computes() {
        let programs = [busy(10 * SLICE_NS), Program::Compute];
        let machine = Machine::new(1, &programs).settled().run(4 * SECOND);
        let shares = [machine.share(0), machine.share(1)];
        assert!(shares.iter().all(|share| *share >= 42), "{shares:?} %");
    }

    #[test]
    fn who_polls_waits_for_a_short_turn_only() {
        let programs = [Program::Poll(10 * MICROSECOND), Program::Compute];
        let machine = Machine::new(1, &programs).settled().run(SECOND);
        let shares = [machine.share(0), machine.share(1)];
        assert!(shares[0] >= 8 && shares[1] >= 49, "{shares:?} %");
    }

    #[test]
    fn who_polls_lets_the_owner_of_a_lock_run() {
        // One that computes was interrupted; the woken one yields until it has gone on.
        let mut ready = Ready::new();
        let mut processor = Processor::new();
        ready.wake('c');
        let mut run = ready.take(&processor, |_| true).unwrap();
        processor.ran(&mut run, SLICE_NS);
        ready.put_back(run);
        ready.wake('w');
        for _ in 0..WOKEN_TURN_NS {
            let mut run = ready.take(&processor, |_| true).unwrap();
            if run.context == 'c' {
                return;
            }
            processor.ran(&mut run, MICROSECOND);
            ready.yields(run, &mut processor);
        }
        panic!("the owner of the lock never runs");
    }

    #[test]
    fn those_that_compute_take_turns_though_the_end_of_a_slice_is_noticed_late() {
        let mut ready = Ready::new();
        let mut processor = Processor::new();
        ready.wake(0);
        ready.wake(1);
        let mut turns = [0_u32; 2];
        for _ in 0..200 {
            let mut run = ready.take(&processor, |_| true).unwrap();
            turns[run.context] += 1;
            while ready.rest_ns(&run, &processor, |_| true) > 0 {
                processor.ran(&mut run, WOKEN_TURN_NS);
            }
            // The way from the timer's interrupt to the switch.
            processor.ran(&mut run, MICROSECOND);
            ready.put_back(run);
        }
        assert!(turns[0].abs_diff(turns[1]) <= 2, "{turns:?}");
    }

    #[test]
    fn a_turn_that_ends_late_is_made_good() {
        let programs = [busy(20 * MICROSECOND), Program::Compute];
        let mut machine = Machine::new(1, &programs);
        machine.lateness = 2 * WOKEN_TURN_NS;
        let machine = machine.settled().run(SECOND);
        assert!(machine.share(1) >= 20, "{} %", machine.share(1));
    }

    #[test]
    fn a_context_runs_where_it_may() {
        let mut ready = Ready::new();
        let processor = Processor::new();
        ready.wake(1);
        ready.wake(2);
        assert!(ready.take(&processor, |context| *context == 3).is_none());
        assert!(ready.waits(|context| *context == 2));
        let run = ready.take(&processor, |context| *context == 2).unwrap();
        assert_eq!((run.context, run.kind()), (2, Kind::Woken));
        assert!(!ready.waits(|context| *context == 2));
    }

    #[test]
    fn turns_are_counted() {
        let mut ready = Ready::new();
        let mut processor = Processor::new();
        ready.wake('c');
        let mut run = ready.take(&processor, |_| true).unwrap();
        processor.ran(&mut run, SLICE_NS);
        processor.ran(&mut run, COMPUTING_TURN_NS);
        ready.put_back(run);
        ready.wake('w');
        let mut run = ready.take(&processor, |_| true).unwrap();
        assert_eq!(run.context, 'w');
        assert_eq!(ready.rest_ns(&run, &processor, |_| true), WOKEN_TURN_NS);
        processor.ran(&mut run, WOKEN_TURN_NS);
        ready.put_back(run);
        let run = ready.take(&processor, |_| true).unwrap();
        assert_eq!((run.context, run.kind()), ('c', Kind::Computing));
        assert!(!processor.is_interruptible(&run));
        let turns = Turns {
            woken: 2,
            computing: 1,
            owed: 1,
        };
        assert_eq!(ready.turns(), turns);
        // One to others while it was woken itself, and one to it.
        assert_eq!(processor.debts(), 2);
    }
}
