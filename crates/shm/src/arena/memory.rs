//! The arena's file in memory, its mapping, and what client and workers tell each other in its first page.
//!
//! ```text
//! 0          Header, then a SlotEntry for each slot; rounded up to pages
//! header     the client's region
//! + region   slot 0's region, slot 1's ...
//! ```
//! The file is sparse: each region has as many addresses as the machine has memory, and only touched pages exist.

use super::{ArenaError, PAGE_SIZE};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_wire::{BlockRange, SlotId};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// "GRSTARNA" in memory; changes with the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"GRSTARN1");
/// All regions together: half of the addresses that a process on x86-64 and aarch64 has.
const ADDRESSES_MAX: u64 = 1 << 46;
/// A smaller region is not worth having.
const REGION_MIN: u64 = 64 << 20;

#[derive(Debug)]
#[repr(C)]
struct Header {
    magic: AtomicU64,
    slot_count: AtomicU64,
    region_size: AtomicU64,
    /// Bytes of pages that may exist.
    limit: AtomicU64,
    /// Bytes of pages in the client's region, and in those of dead workers.
    resident: AtomicU64,
}

/// What a slot's worker may allocate in, and how much of it exists.
#[derive(Debug)]
#[repr(C)]
struct SlotEntry {
    start: AtomicU64,
    end: AtomicU64,
    resident: AtomicU64,
    reserved: AtomicU64,
}

const _: () = assert!(size_of::<Header>() == 40 && size_of::<SlotEntry>() == 32);
const TABLE: u64 = 64;

/// The mapped arena.
#[derive(Debug)]
pub(super) struct Memory {
    descriptor: OwnedFd,
    base: NonNull<u8>,
    size: u64,
    slot_count: u16,
    region_size: u64,
}

/// A region where a fuzzer names ranges: a copy of the largest must not look like a leak.
const FUZZED_REGION: u64 = 16 << 20;

// SAFETY: the mapping belongs to no thread; what is reached through it is atomic, or bytes behind raw pointers.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

const fn header_size(slot_count: u16) -> u64 {
    (TABLE + slot_count as u64 * 32).next_multiple_of(PAGE_SIZE)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The memory that this process may use, bytes: the machine's, or less where a control group says so.
fn usable_memory() -> u64 {
    let mut usable = machine_memory();
    let Ok(groups) = std::fs::read_to_string("/proc/self/cgroup") else { return usable };
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return usable;
    };
    let mut folder = std::path::Path::new("/sys/fs/cgroup").join(path);
    while folder.starts_with("/sys/fs/cgroup") {
        let limit = std::fs::read_to_string(folder.join("memory.max"));
        // The word "max" is no limit and no number.
        if let Ok(limit) = limit.unwrap_or_default().trim().parse() {
            usable = usable.min(limit);
        }
        folder.pop();
    }
    usable
}

/// The machine's memory, bytes.
pub(super) fn machine_memory() -> u64 {
    // SAFETY: two questions without pointers.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0))
}

impl Memory {
    /// Makes the arena; with smaller regions where limits of the process ask for it.
    pub(super) fn create(slot_count: u16) -> Result<Self, ArenaError> {
        let machine = if cfg!(fuzzing) { FUZZED_REGION } else { machine_memory().max(REGION_MIN) };
        let regions = u64::from(slot_count) + 1;
        let mut region_size = machine.min(ADDRESSES_MAX / regions) / PAGE_SIZE * PAGE_SIZE;
        let mut made = Self::create_with(slot_count, region_size);
        if made.is_err() {
            while made.is_err() && region_size / 2 >= REGION_MIN {
                region_size = (region_size / 2).next_multiple_of(PAGE_SIZE);
                made = Self::create_with(slot_count, region_size);
            }
            // Workers have the same limits and other things to map: what just fits here is too much for them.
            drop(made?);
            region_size = (region_size / 4).next_multiple_of(PAGE_SIZE);
            made = Self::create_with(slot_count, region_size);
        }
        let memory = made?;
        let header = memory.header();
        header.slot_count.store(u64::from(slot_count), Ordering::Relaxed);
        header.region_size.store(region_size, Ordering::Relaxed);
        header.limit.store(usable_memory() / 4 * 3, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release); // PAIRS: arena ready (`open`)
        Ok(memory)
    }

    fn create_with(slot_count: u16, region_size: u64) -> Result<Self, ArenaError> {
        let size = header_size(slot_count) + (u64::from(slot_count) + 1) * region_size;
        let fail = |source| ArenaError::Create { size, source };
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a terminated string that outlives the call.
        let descriptor = check(unsafe { libc::memfd_create(c"gristmill-arena".as_ptr(), flags) })
            .map_err(fail)?;
        // SAFETY: the call just returned it, so it is open and nobody else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let length =
            libc::off_t::try_from(size).map_err(|_| fail(io::ErrorKind::FileTooLarge.into()))?;
        // SAFETY: the call takes no pointers.
        check(unsafe { libc::ftruncate(descriptor.as_raw_fd(), length) }).map_err(fail)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the call takes no pointers.
        check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals) })
            .map_err(fail)?;
        let base = map(&descriptor, size, libc::PROT_READ | libc::PROT_WRITE).map_err(fail)?;
        Ok(Self { descriptor, base, size, slot_count, region_size })
    }

    /// Maps an arena that the client made. Only the header and the region of `slot` can be written to: a stray write to
    /// an argument is a signal to the one who made it, and no damage to others.
    pub(super) fn open(descriptor: OwnedFd, slot: SlotId) -> Result<Self, ArenaError> {
        let bad = |field, value| ArenaError::NotAnArena { field, value };
        let size = file_size(&descriptor)?;
        let fail = |source| ArenaError::Create { size, source };
        if size < PAGE_SIZE {
            return Err(bad("size", size));
        }
        let base = map(&descriptor, size, libc::PROT_READ).map_err(fail)?;
        let mut memory = Self { descriptor, base, size, slot_count: 0, region_size: 0 };
        let header = memory.header();
        let magic = header.magic.load(Ordering::Acquire); // PAIRS: arena ready (`create`)
        let (slots, region_size) =
            (header.slot_count.load(Ordering::Relaxed), header.region_size.load(Ordering::Relaxed));
        if magic != MAGIC {
            return Err(bad("first word", magic));
        }
        let slot_count = u16::try_from(slots).map_err(|_| bad("number of slots", slots))?;
        let regions = (slots + 1).checked_mul(region_size);
        let needed = regions.and_then(|regions| regions.checked_add(header_size(slot_count)));
        if needed != Some(size) || !region_size.is_multiple_of(PAGE_SIZE) || slot.0 >= slot_count {
            return Err(bad("size", size));
        }
        (memory.slot_count, memory.region_size) = (slot_count, region_size);
        let (start, end) = memory.region(slot);
        for (start, end) in [(0, header_size(slot_count)), (start, end)] {
            memory.make_writable(start, end).map_err(fail)?;
        }
        Ok(memory)
    }

    fn make_writable(&self, start: u64, end: u64) -> io::Result<()> {
        let length = usize::try_from(end - start).unwrap_or(usize::MAX);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is inside of this mapping, and no reference of ours depends on its protection.
        check(unsafe { libc::mprotect(self.pointer(start).cast(), length, protection) }).map(drop)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is a page at least, aligned, mapped as long as `self` is; a header is all atomics, for
        // which any bytes are valid.
        unsafe { self.base.cast().as_ref() }
    }

    fn entry(&self, slot: SlotId) -> &SlotEntry {
        assert!(slot.0 < self.slot_count, "the arena has no {slot}");
        let place = self.pointer(TABLE + u64::from(slot.0) * size_of::<SlotEntry>() as u64);
        // SAFETY: the table was checked to be in front of the regions; an entry is all atomics.
        unsafe { &*place.cast::<SlotEntry>() }
    }

    /// The address of an offset inside of the arena.
    pub(super) fn pointer(&self, offset: u64) -> *mut u8 {
        assert!(offset < self.size, "offset {offset} is beyond the arena");
        // SAFETY: just checked to be inside of the mapping.
        unsafe { self.base.as_ptr().add(usize::try_from(offset).unwrap_or(0)) }
    }

    /// The offset of an address range, if it is wholly inside of the arena.
    pub(super) fn offset_of(&self, pointer: *const u8, size: usize) -> Option<u64> {
        let offset = (pointer as usize).checked_sub(self.base.as_ptr() as usize)? as u64;
        offset.checked_add(size as u64).is_some_and(|end| end <= self.size).then_some(offset)
    }

    /// Whether a range that a peer named lies among the regions.
    pub(super) fn contains(&self, range: BlockRange) -> bool {
        range.size > 0
            && range.offset >= header_size(self.slot_count)
            && range.end().is_some_and(|end| end <= self.size)
    }

    pub(super) fn client_region(&self) -> (u64, u64) {
        let start = header_size(self.slot_count);
        (start, start + self.region_size)
    }

    pub(super) fn region(&self, slot: SlotId) -> (u64, u64) {
        let start = self.client_region().1 + u64::from(slot.0) * self.region_size;
        (start, start + self.region_size)
    }

    /// Tells a slot's next worker where it may allocate.
    pub(super) fn grant(&self, slot: SlotId, start: u64, end: u64) {
        let entry = self.entry(slot);
        entry.start.store(start, Ordering::Relaxed);
        entry.end.store(end, Ordering::Relaxed);
        entry.resident.store(0, Ordering::Relaxed);
    }

    /// Where a slot's worker may allocate, clipped to the slot's region.
    pub(super) fn granted(&self, slot: SlotId) -> (u64, u64) {
        let (first, last) = self.region(slot);
        let entry = self.entry(slot);
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed).clamp(first, last);
        let (start, end) = (read(&entry.start), read(&entry.end));
        let fits = start.is_multiple_of(PAGE_SIZE) && end.is_multiple_of(PAGE_SIZE) && start <= end;
        if fits { (start, end) } else { (first, first) }
    }

    /// The count of pages of a slot's worker, or of the client.
    fn resident(&self, owner: Option<SlotId>) -> &AtomicU64 {
        owner.map_or(&self.header().resident, |slot| &self.entry(slot).resident)
    }

    /// Bytes of pages that exist, everybody's.
    pub(super) fn resident_size(&self) -> u64 {
        let slots = (0..self.slot_count).map(|slot| Some(SlotId(slot)));
        slots.chain([None]).fold(0, |sum: u64, owner| {
            sum.saturating_add(self.resident(owner).load(Ordering::Relaxed))
        })
    }

    /// Moves pages of a dead worker to the client's account.
    pub(super) fn inherit(&self, size: u64) {
        self.header().resident.fetch_add(size, Ordering::Relaxed);
    }

    /// Makes pages exist, and counts them.
    pub(super) fn commit(
        &self,
        owner: Option<SlotId>,
        offset: u64,
        size: u64,
    ) -> Result<(), ArenaError> {
        self.charge(owner, size)?;
        self.populate(offset, size).inspect_err(|_| self.release(owner, offset, size))
    }

    /// Counts pages that are about to exist.
    pub(super) fn charge(&self, owner: Option<SlotId>, size: u64) -> Result<(), ArenaError> {
        let limit = self.header().limit.load(Ordering::Relaxed);
        let in_use = self.resident_size();
        if in_use.saturating_add(size) > limit {
            return Err(ArenaError::Full { size, in_use, limit });
        }
        self.resident(owner).fetch_add(size, Ordering::Relaxed);
        Ok(())
    }

    /// Makes pages exist. Touching them one by one would cost twice as much, and a signal where memory has run out.
    pub(super) fn populate(&self, offset: u64, size: u64) -> Result<(), ArenaError> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        // SAFETY: the range is inside of the mapping; the advice changes no bytes.
        let populated =
            check(unsafe { libc::madvise(self.pointer(offset).cast(), length, POPULATE_WRITE) });
        match populated {
            // Linux before 5.14 does not know the advice: the pages come with the first touch.
            Err(source) if source.raw_os_error() != Some(libc::EINVAL) => {
                Err(ArenaError::NoMemory { size, source })
            }
            _ => Ok(()),
        }
    }

    /// Gives pages back to the system.
    pub(super) fn release(&self, owner: Option<SlotId>, offset: u64, size: u64) {
        self.punch(offset, size);
        let resident = self.resident(owner);
        // The line can be damaged by a worker: never below nothing.
        let left = resident.load(Ordering::Relaxed).saturating_sub(size);
        resident.store(left, Ordering::Relaxed);
    }

    /// Makes a hole of pages that nobody counts.
    pub(super) fn punch(&self, offset: u64, size: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(start), Ok(length)) = (libc::off_t::try_from(offset), libc::off_t::try_from(size))
        else {
            return;
        };
        if length > 0 {
            // SAFETY: the call takes no pointers. Where it fails the pages stay, which is a cost and no error.
            unsafe { libc::fallocate(self.descriptor.as_raw_fd(), mode, start, length) };
        }
    }
}

/// `MADV_POPULATE_WRITE`.
const POPULATE_WRITE: libc::c_int = 23;

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let size = usize::try_from(self.size).unwrap_or(0);
        // SAFETY: the range was mapped by `map`; whoever has a pointer into it keeps `self` alive.
        unsafe { libc::munmap(self.base.as_ptr().cast(), size) };
    }
}

fn map(descriptor: &OwnedFd, size: u64, protection: libc::c_int) -> io::Result<NonNull<u8>> {
    let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let (place, fd) = (std::ptr::null_mut(), descriptor.as_raw_fd());
    // SAFETY: a fresh mapping at a place of the kernel's choice disturbs no other memory.
    let base = unsafe { libc::mmap(place, length, protection, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range was just mapped; the advice changes no bytes, and where it fails dumps are large.
    unsafe { libc::madvise(base, length, libc::MADV_DONTDUMP) };
    NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable.into())
}

/// The size of a file that cannot shrink under its mapping.
fn file_size(descriptor: &OwnedFd) -> Result<u64, ArenaError> {
    let bad = |field, value| ArenaError::NotAnArena { field, value };
    // SAFETY: the call takes no pointers.
    let seals = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(bad("set of seals", u64::from(seals.cast_unsigned())));
    }
    // SAFETY: all-zero bytes are a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is valid to write to.
    let result = check(unsafe { libc::fstat(descriptor.as_raw_fd(), &raw mut stat) });
    result.map_err(|source| ArenaError::Create { size: 0, source })?;
    Ok(stat.st_size.cast_unsigned())
}
