//! Time: a cheap tick counter for task timings, and the monotonic clock that calibrates it.
//!
//! Ticks come from the processor's counter if it runs at one rate on all cores, else from the monotonic clock. All
//! processes of one node agree on ticks, so a [`TickScale`] that one of them measured is valid for all.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The source of ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TickSource {
    /// The processor's time-stamp counter.
    Counter = 1,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    Monotonic = 2,
}

/// 0 until the source is detected, then a [`TickSource`].
static SOURCE: AtomicU8 = AtomicU8::new(0);

/// Reads the tick counter. Takes about 7 ns; the read is not ordered with the instructions around it.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    match tick_source() {
        TickSource::Counter => counter(),
        TickSource::Monotonic => monotonic_ns(),
    }
}

/// Returns the source of this process's ticks.
#[inline]
#[must_use]
pub fn tick_source() -> TickSource {
    // Relaxed without a partner: detection always gives the same answer.
    match SOURCE.load(Ordering::Relaxed) {
        1 => TickSource::Counter,
        2 => TickSource::Monotonic,
        _ => detect(),
    }
}

#[cold]
fn detect() -> TickSource {
    let source = if counter_is_steady() { TickSource::Counter } else { TickSource::Monotonic };
    SOURCE.store(source as u8, Ordering::Relaxed);
    source
}

/// Reads `CLOCK_MONOTONIC`, nanoseconds.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; a kernel that traps it is not supported.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns true if the counter is invariant: bit 8 of EDX of leaf `8000_0007`.
#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let value: u64;
    // SAFETY: Linux lets user code read the virtual counter; the read has no side effect.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

/// Returns true: the architecture's generic timer runs at one fixed rate on all cores.
#[cfg(target_arch = "aarch64")]
fn counter_is_steady() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter_is_steady() -> bool {
    false
}

/// The duration of a tick in nanoseconds, as a binary fraction with 32 bits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickScale(u64);

const FRACTION_BITS: u32 = 32;
/// The shortest time over which a scale is measured. The two readings are off by about 30 ns each, which makes 60 parts
/// in a million.
const WINDOW_NS: u64 = 1_000_000;

impl TickScale {
    /// The scale of ticks that are nanoseconds.
    pub const NANOSECONDS: Self = Self(1 << FRACTION_BITS);

    /// Returns the scale as a word for a shared header.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Reads a scale from a shared header. Returns `None` outside 1 MHz to 1 THz, where no counter runs.
    #[must_use]
    pub const fn from_word(word: u64) -> Option<Self> {
        let slowest = 1000 << FRACTION_BITS;
        let fastest = (1 << FRACTION_BITS) / 1000;
        if word < fastest || word > slowest { None } else { Some(Self(word)) }
    }

    /// Converts a duration in ticks to nanoseconds; saturates.
    #[inline]
    #[must_use]
    pub fn to_ns(self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * u128::from(self.0)) >> FRACTION_BITS;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Converts a duration in nanoseconds to ticks; saturates.
    #[inline]
    #[must_use]
    pub fn from_ns(self, ns: u64) -> u64 {
        let ticks = (u128::from(ns) << FRACTION_BITS) / u128::from(self.0);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Returns the ticks in one second.
    #[must_use]
    pub fn ticks_per_second(self) -> u64 {
        self.from_ns(1_000_000_000)
    }

    fn between(from: Reading, to: Reading) -> Option<Self> {
        let ticks = u128::from(to.ticks.checked_sub(from.ticks)?);
        let ns = u128::from(to.ns.checked_sub(from.ns)?) << FRACTION_BITS;
        Self::from_word(u64::try_from(ns.checked_div(ticks)?).ok()?)
    }
}

/// The values of both clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    ticks: u64,
    ns: u64,
}

impl Reading {
    /// Reads both clocks five times and returns the tightest reading, so that a reading during which the thread was
    /// preempted does not count.
    fn take() -> Self {
        let mut best = Self { ticks: 0, ns: 0 };
        let mut width = u64::MAX;
        for _ in 0..5 {
            let before = ticks();
            let ns = monotonic_ns();
            let spent = ticks().saturating_sub(before);
            if spent < width {
                width = spent;
                best = Self { ticks: before + spent / 2, ns };
            }
        }
        best
    }
}

/// The interval at which a [`Clock`] reads `CLOCK_MONOTONIC` again. A scale is off by at most 60 parts in a million,
/// which is 6 us in this time.
const RENEWAL_NS: u64 = 100_000_000;

/// `CLOCK_MONOTONIC` at the cost of reading ticks. It never goes back.
///
/// The clock counts ticks from a recent anchor, not from the start of the machine: the scale was measured over a
/// millisecond, and after a day its error would amount to seconds.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    scale: TickScale,
    anchor: Reading,
    /// Ticks for which the anchor is valid.
    good_for: u64,
    last: Reading,
}

impl Clock {
    /// Creates a clock from a scale that was measured on this node.
    #[must_use]
    pub fn new(scale: TickScale) -> Self {
        Self::renewed_every(RENEWAL_NS, scale)
    }

    fn renewed_every(renewal_ns: u64, scale: TickScale) -> Self {
        let anchor = Reading::take();
        Self { scale, anchor, good_for: scale.from_ns(renewal_ns), last: anchor }
    }

    /// Reads the clock; returns nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn read(&mut self) -> u64 {
        let mut now = ticks();
        if now.wrapping_sub(self.anchor.ticks) > self.good_for {
            self.anchor = Reading::take();
            now = self.anchor.ticks;
        }
        let since = self.scale.to_ns(now.wrapping_sub(self.anchor.ticks));
        self.last = Reading { ticks: now, ns: self.last.ns.max(self.anchor.ns + since) };
        self.last.ns
    }

    /// Returns the last reading, nanoseconds.
    #[inline]
    #[must_use]
    pub const fn ns(&self) -> u64 {
        self.last.ns
    }

    /// Returns the last reading, ticks.
    #[inline]
    #[must_use]
    pub const fn ticks(&self) -> u64 {
        self.last.ticks
    }
}

static START: OnceLock<Reading> = OnceLock::new();
static SCALE: OnceLock<TickScale> = OnceLock::new();

/// Records the time from which [`scale`] measures. An early call makes `scale` free and exact.
pub fn start() {
    START.get_or_init(Reading::take);
}

/// Returns the duration of a tick in this process, measured once, from [`start`] on. Spins for the rest of the first
/// millisecond if less than that has passed.
#[must_use]
pub fn scale() -> TickScale {
    if tick_source() == TickSource::Monotonic {
        return TickScale::NANOSECONDS;
    }
    *SCALE.get_or_init(measure)
}

fn measure() -> TickScale {
    let mut from = *START.get_or_init(Reading::take);
    loop {
        while monotonic_ns().saturating_sub(from.ns) < WINDOW_NS {
            std::hint::spin_loop();
        }
        match TickScale::between(from, Reading::take()) {
            Some(scale) => return scale,
            // The machine was suspended or migrated in between.
            None => from = Reading::take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_measure_the_time_that_passes() {
        start();
        let scale = scale();
        let (ticks_before, ns_before) = (ticks(), monotonic_ns());
        while monotonic_ns() - ns_before < 2_000_000 {}
        assert!(scale.to_ns(ticks() - ticks_before) >= 1_900_000, "{scale:?}");
    }

    #[test]
    fn a_clock_stays_beside_the_one_that_it_stands_for_and_never_goes_back() {
        let exact = scale().word();
        for word in [exact - exact / 10, exact + exact / 10] {
            let wrong = TickScale::from_word(word).expect("in range");
            let mut clock = Clock::renewed_every(1_000_000, wrong);
            let (begun, mut last) = (monotonic_ns(), 0);
            while monotonic_ns() - begun < 20_000_000 {
                let before = monotonic_ns();
                let ns = clock.read();
                assert!(ns >= last, "it goes on");
                let slack = 1_000_000; // well above a tenth of the time between two renewals
                assert!(before - slack <= ns && ns <= monotonic_ns() + slack);
                assert_eq!(clock.ns(), ns);
                last = ns;
            }
        }
    }

    #[test]
    fn a_scale_that_no_clock_has_is_refused() {
        assert_eq!(TickScale::from_word(0), None);
        assert_eq!(TickScale::from_word(u64::MAX), None);
        assert_eq!(TickScale::from_word(1 << 32), Some(TickScale::NANOSECONDS));
        assert_eq!(TickScale::NANOSECONDS.ticks_per_second(), 1_000_000_000);
    }

    proptest! {
        #[test]
        fn conversion_there_and_back_loses_less_than_a_tick_each_way(
            ns in 0u64..1 << 50, word in (1u64 << 32) / 1000..1000 << 32,
        ) {
            let scale = TickScale::from_word(word).expect("in range");
            let back = scale.to_ns(scale.from_ns(ns));
            prop_assert!(back <= ns && ns - back <= 1 + (word >> 32));
        }
    }
}
