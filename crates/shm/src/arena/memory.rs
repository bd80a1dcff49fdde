//! The files of an arena, their mapping, and the shared state of client and workers in its header.

use super::disk::Disk;
use super::layout::{ArenaSpace, ENTRY_SIZE, HEADER_SIZE, Layout, Tier, address_budget};
use super::pressure::Pressure;
use super::{ArenaError, ArenaOptions, PAGE_SIZE};
use crate::shared::{OpenError, SharedError, SharedMemory, check};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_wire::{BlockRange, SlotId};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// "GRSTARN2" in memory; changes with the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"GRSTARN2");

/// The header of an arena. A byte is *resident* if a page of memory or room on disk is allocated for it.
#[derive(Debug)]
#[repr(C)]
struct Header {
    magic: AtomicU64,
    slot_count: AtomicU64,
    /// By tier, like all arrays of this header and of [`SlotEntry`].
    region_sizes: [AtomicU64; 2],
    /// Upper limits of the number of resident bytes.
    limits: [AtomicU64; 2],
    /// Numbers of resident bytes in the client's regions and in those of dead workers.
    resident: [AtomicU64; 2],
}

/// The range in which a slot's worker may allocate, and the number of its resident bytes; by tier.
#[derive(Debug)]
#[repr(C)]
struct SlotEntry {
    starts: [AtomicU64; 2],
    ends: [AtomicU64; 2],
    resident: [AtomicU64; 2],
    /// Unused words that fill the entry up to [`ENTRY_SIZE`].
    reserved: [AtomicU64; 2],
}

const _: () = assert!(size_of::<Header>() as u64 == HEADER_SIZE);
const _: () = assert!(size_of::<SlotEntry>() as u64 == ENTRY_SIZE);

/// The mapped arena.
#[derive(Debug)]
pub(super) struct Memory {
    shared: SharedMemory,
    disk: Option<Arc<Disk>>,
    base: NonNull<u8>,
    pub layout: Layout,
    pressure: Pressure,
}

// SAFETY: the mapping belongs to no thread; everything reached through it is atomic, or bytes behind raw pointers.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Creates the arena, with smaller regions if the limits of the process require it.
    pub(super) fn create(slot_count: u16, options: &ArenaOptions) -> Result<Self, ArenaError> {
        let memory = gristmill_machine::memory();
        let (disk, disk_room) = Disk::create_in(&options.spill).unzip();
        let room = ArenaSpace {
            memory: memory.machine,
            disk: disk_room.unwrap_or(0),
            addresses: address_budget(),
            file_size: gristmill_machine::process_limits().file_size,
        };
        let layout = Layout::plan(slot_count, &room);
        let made = Self::create_fitting(layout, disk.map(Arc::new).as_ref())?;
        let header = made.header();
        header.slot_count.store(u64::from(slot_count), Ordering::Relaxed);
        // Beyond this limit payloads go to the disk. Without a disk the limit is higher.
        let usual = if made.disk.is_some() { memory.usable / 2 } else { memory.usable / 4 * 3 };
        let share = options.memory.unwrap_or(usual);
        let sizes = made.layout.region_sizes;
        for (tier, limit) in [(Tier::Memory, share), (Tier::Disk, room.disk)] {
            header.region_sizes[tier.index()].store(sizes[tier.index()], Ordering::Relaxed);
            header.limits[tier.index()].store(limit, Ordering::Relaxed);
        }
        header.magic.store(MAGIC, Ordering::Release); // PAIRS: arena ready (`open`)
        Ok(made)
    }

    fn create_fitting(wish: Layout, disk: Option<&Arc<Disk>>) -> Result<Self, ArenaError> {
        let first = match Self::create_with(wish, disk) {
            Ok(made) => return Ok(made),
            Err(error) => error,
        };
        let mut layout = wish;
        while let Some(smaller) = layout.smaller(2) {
            layout = smaller;
            if let Ok(made) = Self::create_with(layout, disk) {
                // Workers have the same limits and map other things too, so a layout that just fits here is too large
                // for them.
                let Some(smaller) = layout.smaller(4) else { return Ok(made) };
                drop(made);
                return Self::create_with(smaller, disk);
            }
        }
        Err(first)
    }

    fn create_with(layout: Layout, disk: Option<&Arc<Disk>>) -> Result<Self, ArenaError> {
        // If the file system refuses the size, the arena has no disk.
        let disk =
            disk.filter(|disk| layout.has_disk() && disk.set_size(layout.disk_size()).is_ok());
        let layout = if disk.is_some() { layout } else { layout.without_disk() };
        let size = layout.size();
        let shared = SharedMemory::create(c"gristmill-arena", layout.memory_size());
        let shared = shared.map_err(|error| {
            let (SharedError::Descriptor(source) | SharedError::Size(source)) = error;
            ArenaError::Create { size, source }
        })?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        Self::map(shared, disk.cloned(), layout, protection)
    }

    fn map(
        shared: SharedMemory,
        disk: Option<Arc<Disk>>,
        layout: Layout,
        protection: libc::c_int,
    ) -> Result<Self, ArenaError> {
        let size = layout.size();
        let fail = |source| ArenaError::Create { size, source };
        let base = reserve_addresses(size).map_err(fail)?;
        let memory = Self { shared, disk, base, layout, pressure: Pressure::default() };
        // SAFETY: at least `memory_size` addresses were just reserved, and nothing refers to them.
        unsafe { memory.shared.map(Some(base), protection) }.map_err(fail)?;
        if let Some(disk) = &memory.disk {
            let behind = NonNull::new(memory.pointer(layout.memory_size())).unwrap_or(base);
            // SAFETY: the addresses after those in memory were reserved for this.
            unsafe { disk.map(Some(behind), layout.disk_size(), protection) }.map_err(fail)?;
        }
        let length = usize::try_from(size).unwrap_or(0);
        // SAFETY: the range was just mapped. The advice changes no bytes; if it fails, core dumps are large.
        unsafe { libc::madvise(base.as_ptr().cast(), length, libc::MADV_DONTDUMP) };
        Ok(memory)
    }

    /// Maps an arena that the client made: its memory, and its file on disk. If there is no disk, `disk` is another
    /// descriptor of the memory. Only the header and the region in memory of `slot` are writable, so a stray write to an
    /// argument kills the worker that made it and damages no other process.
    pub(super) fn open(
        descriptor: OwnedFd,
        disk: OwnedFd,
        slot: SlotId,
    ) -> Result<Self, ArenaError> {
        let bad = |field, value| ArenaError::NotAnArena { field, value };
        let shared = SharedMemory::open(descriptor).map_err(|error| match error {
            OpenError::NotMemory(source) => ArenaError::Create { size: 0, source },
            OpenError::NotSealed(seals) => bad("set of seals", u64::from(seals.cast_unsigned())),
        })?;
        let size = shared.size();
        if size < PAGE_SIZE {
            return Err(bad("size", size));
        }
        let layout = read_layout(&shared)?;
        let disk = Arc::new(Disk::open(disk));
        let disk = layout.has_disk().then_some(disk);
        let disk_size = disk.as_ref().map_or(Ok(0), |disk| disk.size());
        let disk_size = disk_size.map_err(|source| ArenaError::Create { size, source })?;
        if layout.memory_size() != size
            || layout.disk_size() != disk_size
            || slot.0 >= layout.slot_count
        {
            return Err(bad("size", size));
        }
        let memory = Self::map(shared, disk, layout, libc::PROT_READ)?;
        let (start, end) = layout.region(Some(slot), Tier::Memory);
        for (start, end) in [(0, layout.header_size()), (start, end)] {
            let made = memory.make_writable(start, end);
            made.map_err(|source| ArenaError::Create { size, source })?;
        }
        Ok(memory)
    }

    fn make_writable(&self, start: u64, end: u64) -> io::Result<()> {
        let length = usize::try_from(end - start).unwrap_or(usize::MAX);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is inside this mapping, and no reference of this process depends on its protection.
        check(unsafe { libc::mprotect(self.pointer(start).cast(), length, protection) }).map(drop)
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is at least a page, aligned, and mapped as long as `self` lives; a header is all atomics,
        // for which any bytes are valid.
        unsafe { self.base.cast().as_ref() }
    }

    fn entry(&self, slot: SlotId) -> &SlotEntry {
        assert!(slot.0 < self.layout.slot_count, "the arena has no {slot}");
        let place = self.pointer(HEADER_SIZE + u64::from(slot.0) * ENTRY_SIZE);
        // SAFETY: the table is in front of the regions; an entry is all atomics.
        unsafe { &*place.cast::<SlotEntry>() }
    }

    /// Returns the address of an offset in the arena.
    ///
    /// # Panics
    /// If the offset is beyond the arena.
    pub(super) fn pointer(&self, offset: u64) -> *mut u8 {
        assert!(offset < self.layout.size(), "offset {offset} is beyond the arena");
        // SAFETY: the offset was just checked to be inside the mapping.
        unsafe { self.base.as_ptr().add(usize::try_from(offset).unwrap_or(0)) }
    }

    /// Returns the offset of an address range if it lies wholly inside the arena.
    pub(super) fn offset_of(&self, pointer: *const u8, size: usize) -> Option<u64> {
        let offset = (pointer as usize).checked_sub(self.base.as_ptr() as usize)? as u64;
        let end = offset.checked_add(size as u64);
        end.is_some_and(|end| end <= self.layout.size()).then_some(offset)
    }

    /// Returns true if a range that a peer named lies inside the regions.
    pub(super) fn contains(&self, range: BlockRange) -> bool {
        self.layout.contains(range)
    }

    pub(super) fn tier_of(&self, offset: u64) -> Tier {
        self.layout.tier_of(offset)
    }

    /// Returns the file on disk, if there is one.
    pub(super) fn disk(&self) -> Option<&Disk> {
        self.disk.as_deref()
    }

    /// Sets the range in which a slot's next worker may allocate.
    pub(super) fn grant(&self, slot: SlotId, tier: Tier, (start, end): (u64, u64)) {
        let entry = self.entry(slot);
        entry.starts[tier.index()].store(start, Ordering::Relaxed);
        entry.ends[tier.index()].store(end, Ordering::Relaxed);
        entry.resident[tier.index()].store(0, Ordering::Relaxed);
    }

    /// Returns the range in which a slot's worker may allocate, clipped to the slot's region.
    pub(super) fn granted(&self, slot: SlotId, tier: Tier) -> (u64, u64) {
        let (first, last) = self.layout.region(Some(slot), tier);
        let entry = self.entry(slot);
        let read =
            |words: &[AtomicU64; 2]| words[tier.index()].load(Ordering::Relaxed).clamp(first, last);
        let (start, end) = (read(&entry.starts), read(&entry.ends));
        let fits = start.is_multiple_of(PAGE_SIZE) && end.is_multiple_of(PAGE_SIZE) && start <= end;
        if fits { (start, end) } else { (first, first) }
    }

    /// Returns the counter of the resident bytes of a slot's worker, or of the client (see [`Header`]).
    fn resident(&self, owner: Option<SlotId>, tier: Tier) -> &AtomicU64 {
        let counts = owner.map_or(&self.header().resident, |slot| &self.entry(slot).resident);
        &counts[tier.index()]
    }

    /// Returns the number of resident bytes, summed over the client and all workers.
    pub(super) fn resident_size(&self, tier: Tier) -> u64 {
        let slots = (0..self.layout.slot_count).map(|slot| Some(SlotId(slot)));
        slots.chain([None]).fold(0, |sum: u64, owner| {
            sum.saturating_add(self.resident(owner, tier).load(Ordering::Relaxed))
        })
    }

    /// Returns the upper limit of the number of resident bytes.
    pub(super) fn limit(&self, tier: Tier) -> u64 {
        self.header().limits[tier.index()].load(Ordering::Relaxed)
    }

    /// Adds bytes of a dead worker to the client's counter.
    pub(super) fn inherit(&self, tier: Tier, size: u64) {
        self.resident(None, tier).fetch_add(size, Ordering::Relaxed);
    }

    /// Counts bytes that are about to become resident. Fails if the limit is reached or memory is scarce.
    pub(super) fn charge(
        &self,
        owner: Option<SlotId>,
        tier: Tier,
        size: u64,
    ) -> Result<(), ArenaError> {
        let (in_use, limit) = (self.resident_size(tier), self.limit(tier));
        if in_use.saturating_add(size) > limit {
            return Err(ArenaError::full(tier, size, in_use, limit));
        }
        if tier == Tier::Memory && self.disk.is_some() {
            let admitted = self.pressure.admit(size);
            admitted.map_err(|available| ArenaError::Scarce { size, available })?;
        }
        self.resident(owner, tier).fetch_add(size, Ordering::Relaxed);
        Ok(())
    }

    /// Creates bytes that were counted: pages in memory, or room on the disk.
    pub(super) fn commit(&self, offset: u64, size: u64) -> Result<(), ArenaError> {
        match self.tier_of(offset) {
            Tier::Memory => self.populate(offset, size),
            Tier::Disk => self.take_room(offset, size),
        }
    }

    fn take_room(&self, offset: u64, size: u64) -> Result<(), ArenaError> {
        let Some(disk) = self.disk() else { return Ok(()) };
        let taken = disk.take_room(offset - self.layout.memory_size(), size);
        taken.map_err(|source| self.disk_error(size, source))
    }

    fn disk_error(&self, size: u64, source: io::Error) -> ArenaError {
        let directory = self.disk().map(Disk::directory).unwrap_or_default();
        ArenaError::Disk { size, directory, source }
    }

    /// Creates pages. Touching them one by one would cost twice as much, and would raise a signal if memory has run
    /// out.
    pub(super) fn populate(&self, offset: u64, size: u64) -> Result<(), ArenaError> {
        if self.tier_of(offset) == Tier::Disk {
            return Ok(());
        }
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        // SAFETY: the range is inside the mapping; the advice changes no bytes.
        let populated =
            check(unsafe { libc::madvise(self.pointer(offset).cast(), length, POPULATE_WRITE) });
        match populated {
            // Linux before 5.14 does not know the advice: the first touch creates the pages.
            Err(source) if source.raw_os_error() != Some(libc::EINVAL) => {
                Err(ArenaError::NoMemory { size, source })
            }
            _ => Ok(()),
        }
    }

    /// Copies bytes to a block.
    ///
    /// # Safety
    /// `bytes` points to `size` readable bytes. The block at `offset` has at least as many, and no other code has a
    /// pointer to it yet.
    pub(super) unsafe fn fill(
        &self,
        offset: u64,
        bytes: *const u8,
        size: usize,
    ) -> Result<(), ArenaError> {
        if let (Tier::Disk, Some(disk)) = (self.tier_of(offset), self.disk()) {
            // SAFETY: passed on from the caller.
            let bytes = unsafe { std::slice::from_raw_parts(bytes, size) };
            let written = disk.write(offset - self.layout.memory_size(), bytes);
            return written.map_err(|source| self.disk_error(size as u64, source));
        }
        // SAFETY: passed on from the caller.
        unsafe { std::ptr::copy_nonoverlapping(bytes, self.pointer(offset), size) };
        Ok(())
    }

    /// Writes bytes to the file on disk, at an offset after the regions in memory.
    pub(super) fn write_through(&self, offset: u64, bytes: &[u8]) -> Result<(), ArenaError> {
        let place = offset.checked_sub(self.layout.memory_size());
        let (Some(place), Some(disk)) = (place, self.disk()) else {
            return Err(ArenaError::BadRange { offset, size: bytes.len() as u64 });
        };
        disk.append(place, bytes).map_err(|source| self.disk_error(bytes.len() as u64, source))
    }

    /// Starts the write-back of a range of the file on disk, whose pages are still in the page cache. Does not wait
    /// for it.
    pub(super) fn begin_writing(&self, range: BlockRange) {
        let place = range.offset.checked_sub(self.layout.memory_size());
        if let (Some(place), Some(disk)) = (place, self.disk()) {
            disk.begin_writing(place, range.size);
        }
    }

    /// Returns bytes to the system and subtracts them from their owner's counter.
    pub(super) fn release(&self, owner: Option<SlotId>, offset: u64, size: u64) {
        self.punch(offset, size);
        self.discharge(owner, self.tier_of(offset), size);
    }

    /// Subtracts bytes from an owner's counter.
    pub(super) fn discharge(&self, owner: Option<SlotId>, tier: Tier, size: u64) {
        let resident = self.resident(owner, tier);
        // A worker can damage the counter, so the subtraction saturates.
        let lower = |bytes: u64| Some(bytes.saturating_sub(size));
        let _ = resident.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
    }

    /// Releases the pages of a range without changing a counter.
    pub(super) fn punch(&self, offset: u64, size: u64) {
        if size == 0 {
            return;
        }
        match (self.tier_of(offset), self.disk()) {
            // SAFETY: the range is inside the mapping, and no block lies in it.
            (Tier::Memory, _) => unsafe { self.shared.punch(self.pointer(offset), offset, size) },
            (Tier::Disk, Some(disk)) => disk.punch(offset - self.layout.memory_size(), size),
            (Tier::Disk, None) => {}
        }
    }

    /// Returns the descriptors with which a worker opens the arena.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        let memory = self.shared.as_fd();
        [memory, self.disk().map_or(memory, Disk::as_fd)]
    }
}

/// `MADV_POPULATE_WRITE`.
const POPULATE_WRITE: libc::c_int = 23;

impl Drop for Memory {
    fn drop(&mut self) {
        let size = usize::try_from(self.layout.size()).unwrap_or(0);
        // SAFETY: `map` mapped the range; all owners of pointers into it keep `self` alive.
        unsafe { libc::munmap(self.base.as_ptr().cast(), size) };
    }
}

/// Reserves unused addresses.
fn reserve_addresses(size: u64) -> io::Result<NonNull<u8>> {
    let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let place = std::ptr::null_mut();
    // SAFETY: a fresh mapping at an address that the kernel chooses disturbs no other memory.
    let base = unsafe { libc::mmap(place, length, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable.into())
}

/// Reads and validates the layout in the header that the client wrote.
fn read_layout(shared: &SharedMemory) -> Result<Layout, ArenaError> {
    let bad = |field, value| ArenaError::NotAnArena { field, value };
    let size = shared.size();
    // SAFETY: no address is given, so the kernel chooses one.
    let base = unsafe { shared.map(None, libc::PROT_READ) };
    let base = base.map_err(|source| ArenaError::Create { size, source })?;
    // SAFETY: the mapping is at least a page, aligned, and unmapped only below; a header is all atomics, for which any
    // bytes are valid.
    let header: &Header = unsafe { base.cast().as_ref() };
    let magic = header.magic.load(Ordering::Acquire); // PAIRS: arena ready (`create`)
    let slots = header.slot_count.load(Ordering::Relaxed);
    let region_sizes = [0, 1].map(|tier: usize| header.region_sizes[tier].load(Ordering::Relaxed));
    let length = usize::try_from(size).unwrap_or(0);
    // SAFETY: the range was just mapped, and the reference to it was used for the last time.
    unsafe { libc::munmap(base.as_ptr().cast(), length) };
    if magic != MAGIC {
        return Err(bad("first word", magic));
    }
    let slot_count = u16::try_from(slots).map_err(|_| bad("number of slots", slots))?;
    let layout = Layout { slot_count, region_sizes };
    if layout.is_sound() { Ok(layout) } else { Err(bad("size", size)) }
}
