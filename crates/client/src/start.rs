//! The start of a client: its rings, its threads, and its first processes. It does not wait for these processes.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gristmill_core::Core;
use gristmill_keeper::{Events, KeeperOptions, launch};
use gristmill_shm::{ClientArena, EventFd, Gaps, Segment, SegmentError, SegmentOptions};
use gristmill_store::BroadcastPlan;
use gristmill_sync::barrier::BarrierMode;
use gristmill_transport::Sleeper;

use crate::blobs::{BlobOptions, BlobReceiver};
use crate::client::Client;
use crate::client_port::ClientPort;
use crate::inner::{Inner, LockFreeState};
use crate::leader_sleep::LOOKS;
use crate::options::{ClientOptions, LinkUse, StartError};
use crate::peers::{LinkSizes, Links};
use crate::staging::StagingTable;
use crate::tree::Tree;

impl Client {
    /// Makes the rings and starts the processes, without a wait for them.
    ///
    /// # Errors
    /// [`StartError`]: memory, processes or threads are missing.
    pub fn start(options: ClientOptions) -> Result<Arc<Self>, StartError> {
        let mut options = options;
        let (workers, spares) = (options.core.workers, options.core.spare_max);
        options.core.spare_max = ClientArena::spares_within_limits(workers, spares);
        let slot_count = options.core.slot_count();
        let segment = make_segment(&options, slot_count)?;
        let arena = ClientArena::create_with(
            u16::try_from(slot_count).unwrap_or(u16::MAX),
            &options.arena,
        )?;
        let sleeper = make_sleeper(options.links)?;
        let clock = (segment.mode(), segment.tick_scale());
        let (commands, events) = launch(options.keeper_image, KeeperOptions::default())?;
        let mut descriptors = own_descriptors(&segment, &arena, sleeper.as_deref())?;
        descriptors.extend(options.descriptors);
        let shape = (options.spawn_fresh, slot_count);
        let tree = Tree::new(commands, options.program, descriptors, shape);
        let mut links = Links::new(sleeper.clone(), options.links == LinkUse::Inwards);
        let memory = gristmill_machine::memory().usable;
        links.sizes = LinkSizes::within(memory);
        let mut port = ClientPort::new(slot_count, clock, arena.clone(), links);
        let BlobOptions { broadcast, limits, sibling, stager } = options.blobs;
        port.provider.broadcast = BroadcastPlan::new(broadcast);
        if let (Some(limits), Some(sleeper)) = (limits, &sleeper) {
            let mut receiver = BlobReceiver::new(arena.clone(), limits, sibling, sleeper.waker());
            receiver.staged = StagingTable::new(stager, sleeper.waker());
            port.receiver = Some(receiver);
        }
        let shared = Arc::new(LockFreeState::new(Arc::new(segment), clock.0, sleeper));
        let cores = gristmill_machine::cpus().usable();
        let mut config = options.core;
        config.ticks_per_second = clock.1.ticks_per_second();
        config.cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let gaps = Gaps::new(options.window, LOOKS);
        let mut inner = Inner::new(Core::new(config), port, tree, Arc::clone(&shared), gaps);
        inner.nested.limit_definitions(memory);
        let now = inner.port.read_clock();
        inner.core.start(now, &mut inner.port);
        inner.settle();
        let waits = (options.window, cores);
        let client = Arc::new(Self::new(inner, shared, arena, waits, options.keeper_image));
        client.start_threads(events)?;
        Ok(client)
    }

    fn start_threads(self: &Arc<Self>, events: Events) -> Result<(), StartError> {
        self.spawn("gristmill-attendant", crate::attendant::run)?;
        self.spawn("gristmill-watcher", move |client| crate::watcher::run(client, events))
    }

    /// Starts a thread of the engine. If the thread panics, the client ends, so that no caller waits for its work.
    fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Result<(), StartError> {
        let client = Arc::clone(self);
        let body = move || {
            if catch_unwind(AssertUnwindSafe(|| body(&client))).is_err() {
                client.give_up_after_panic();
            }
        };
        let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
        builder.spawn(body).map(drop).map_err(StartError::Thread)
    }
}

/// Makes the memory for the rings. An engine with links uses a fence: tasks over links are too rare for the cost of a fence
/// each to count, and they find workers asleep. The alternative is a system call before each sleep, which would interrupt the
/// cores of all running workers. A program whose workers are all on other nodes has no core to interrupt.
fn make_segment(options: &ClientOptions, slot_count: usize) -> Result<Segment, SegmentError> {
    let sizes = SegmentOptions {
        slot_count: u16::try_from(slot_count.max(1)).unwrap_or(u16::MAX),
        task_ring_size: options.ring_size,
        result_ring_size: options.ring_size,
    };
    match options.links {
        LinkUse::None => Segment::create(&sizes),
        LinkUse::Outwards | LinkUse::Inwards => {
            Segment::create_with_mode(&sizes, BarrierMode::Fence)
        }
    }
}

/// Makes the sleeper that waits for links, if there may be some.
fn make_sleeper(links: LinkUse) -> Result<Option<Arc<Sleeper>>, StartError> {
    match links {
        LinkUse::None => Ok(None),
        LinkUse::Outwards | LinkUse::Inwards => {
            Sleeper::new().map(|sleeper| Some(Arc::new(sleeper))).map_err(StartError::Sleeper)
        }
    }
}

/// Returns the descriptors of every process of the tree: the rings, the arena, its file on disk, and the leader's event.
fn own_descriptors(
    segment: &Segment,
    arena: &ClientArena,
    sleeper: Option<&Sleeper>,
) -> Result<Vec<OwnedFd>, StartError> {
    let event = match sleeper {
        Some(sleeper) => clone_descriptor(&sleeper.event())?,
        None => EventFd::create()?,
    };
    let [memory, disk] = arena.descriptors();
    Ok(vec![
        clone_descriptor(segment)?,
        clone_descriptor(&memory)?,
        clone_descriptor(&disk)?,
        event,
    ])
}

fn clone_descriptor(memory: &impl AsFd) -> Result<OwnedFd, StartError> {
    let clone = memory.as_fd().try_clone_to_owned();
    clone.map_err(|source| StartError::Segment(SegmentError::Create { source }))
}
