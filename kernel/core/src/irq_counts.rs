//! Interrupt counters with acknowledgement, and the vectors allocated to drivers.
//!
//! Interrupt numbers are vectors minus 32. All handles share the counter of a number, which lives
//! for ever; a handle remembers the last count that it acknowledged.

/// Interrupt numbers: vectors 32 to 255.
pub const IRQ_COUNT: usize = 224;

/// Numbers below this are the legacy lines of the interrupt controller.
pub const LEGACY_IRQS: u8 = 16;

/// Counters and reservations of all interrupt numbers.
#[derive(Debug)]
pub struct IrqCounts {
    counts: [usize; IRQ_COUNT],
    reserved: [bool; IRQ_COUNT],
}

impl Default for IrqCounts {
    fn default() -> Self {
        Self::new()
    }
}

impl IrqCounts {
    /// All counters 0, the legacy lines reserved.
    pub const fn new() -> Self {
        let mut reserved = [false; IRQ_COUNT];
        let mut irq = 0;
        while irq < LEGACY_IRQS as usize {
            reserved[irq] = true;
            irq += 1;
        }
        Self {
            counts: [0; IRQ_COUNT],
            reserved,
        }
    }

    /// Counts one interrupt.
    pub fn raise(&mut self, irq: u8) {
        if let Some(count) = self.counts.get_mut(usize::from(irq)) {
            *count = count.wrapping_add(1);
        }
    }

    /// How often `irq` was raised; 0 for a number that does not exist.
    pub fn count(&self, irq: u8) -> usize {
        self.counts.get(usize::from(irq)).copied().unwrap_or(0)
    }

    /// The result of reading a handle: the count, if the handle has not acknowledged it yet.
    pub fn new_count(&self, irq: u8, acknowledged: usize) -> Option<usize> {
        Some(self.count(irq)).filter(|&count| count != acknowledged)
    }

    /// Whether acknowledging `count` covers everything that has happened so far.
    pub fn is_current(&self, irq: u8, count: usize) -> bool {
        self.count(irq) == count
    }

    /// Reserves a number; false when it is taken or does not exist.
    pub fn reserve(&mut self, irq: u8) -> bool {
        match self.reserved.get_mut(usize::from(irq)) {
            Some(place) if !*place => {
                *place = true;
                true
            }
            _ => false,
        }
    }

    /// Frees a reserved number. Legacy lines stay reserved.
    pub fn release(&mut self, irq: u8) {
        if irq >= LEGACY_IRQS
            && let Some(place) = self.reserved.get_mut(usize::from(irq))
        {
            *place = false;
        }
    }

    /// Numbers that can be reserved, from `first` on, in ascending order.
    pub fn free(&self, first: usize) -> impl Iterator<Item = u8> + '_ {
        self.reserved
            .iter()
            .enumerate()
            .skip(first)
            .filter(|&(_, &taken)| !taken)
            .filter_map(|(irq, _)| u8::try_from(irq).ok())
    }

    /// All counters.
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_reads_a_count_until_it_acknowledges_it() {
        let mut irqs = IrqCounts::new();
        assert_eq!(irqs.new_count(60, 0), None);
        irqs.raise(60);
        irqs.raise(60);
        assert_eq!(irqs.new_count(60, 0), Some(2));
        irqs.raise(60);
        assert!(!irqs.is_current(60, 2));
        assert!(irqs.is_current(60, 3));
        assert_eq!(irqs.new_count(60, 3), None);
    }

    #[test]
    fn vectors_can_be_taken_given_back_and_taken_again() {
        let mut irqs = IrqCounts::new();
        assert!(!irqs.reserve(3));
        assert!(irqs.reserve(16));
        assert!(!irqs.reserve(16));
        assert_eq!(irqs.free(0).next(), Some(17));
        irqs.release(16);
        irqs.release(3);
        assert_eq!(irqs.free(0).next(), Some(16));
        assert!(!irqs.reserve(224));
        assert_eq!(irqs.free(0).count(), IRQ_COUNT - 16);
    }

    #[test]
    fn numbers_out_of_range_are_harmless() {
        let mut irqs = IrqCounts::new();
        irqs.raise(255);
        irqs.release(255);
        assert_eq!(irqs.count(255), 0);
    }
}
