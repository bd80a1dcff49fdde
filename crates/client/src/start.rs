//! The start of a client: its rings, its threads, and its first processes, which it does not wait for.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gristmill_core::Core;
use gristmill_keeper::{Events, KeeperOptions, launch};
use gristmill_shm::{ClientArena, Event, Gaps, Segment, SegmentError, SegmentOptions};
use gristmill_store::Spread;
use gristmill_sync::barrier::BarrierMode;
use gristmill_transport::Sleeper;

use crate::blobs::{BlobOptions, Taking};
use crate::client::Client;
use crate::inner::{Inner, Shared};
use crate::lanes::Lanes;
use crate::options::{ClientOptions, LinkUse, StartError};
use crate::peers::Links;
use crate::provisions::Provisions;
use crate::rest::LOOKS;
use crate::tree::Tree;

impl Client {
    /// Makes the rings and starts the processes; does not wait for them.
    ///
    /// # Errors
    /// [`StartError`]: memory, processes or threads are not to be had.
    pub fn start(options: ClientOptions) -> Result<Arc<Self>, StartError> {
        let slot_count = options.core.slot_count();
        let segment = make_segment(&options, slot_count)?;
        let arena = ClientArena::create(u16::try_from(slot_count).unwrap_or(u16::MAX))?;
        let sleeper = make_sleeper(options.links)?;
        let clock = (segment.mode(), segment.tick_scale());
        let (commands, events) = launch(options.keeper_image, KeeperOptions::default())?;
        let mut descriptors = own_descriptors(&segment, &arena, sleeper.as_deref())?;
        descriptors.extend(options.descriptors);
        let shape = (options.spawn_fresh, slot_count);
        let tree = Tree::new(commands, options.program, descriptors, shape);
        let links = Links::new(sleeper.clone(), options.links == LinkUse::Inwards);
        let mut lanes = Lanes::new(slot_count, clock, arena.clone(), links);
        let BlobOptions { spread, limits, sibling, steward } = options.blobs;
        lanes.giving.spread = Spread::new(spread);
        if let (Some(limits), Some(sleeper)) = (limits, &sleeper) {
            let mut taking = Taking::new(arena.clone(), limits, sibling, sleeper.waker());
            taking.provisions = Provisions::new(steward, sleeper.waker());
            lanes.taking = Some(taking);
        }
        let shared = Arc::new(Shared::new(Arc::new(segment), clock.0, sleeper));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut config = options.core;
        config.ticks_per_second = clock.1.ticks_per_second();
        config.cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let gaps = Gaps::new(options.window, LOOKS);
        let mut inner = Inner::new(Core::new(config), lanes, tree, Arc::clone(&shared), gaps);
        let now = inner.lanes.read_clock();
        inner.core.start(now, &mut inner.lanes);
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

    /// Starts a thread of the engine. If it panics nobody waits for what it would have done.
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

/// Memory for the rings. Tasks that come over links come too rarely for a fence each to count, and find workers asleep; the
/// call in its place, before each sleep, would interrupt the cores of all workers that run. A program whose workers are all
/// on other nodes has nobody to interrupt.
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

/// What rests on links, where there may be some.
fn make_sleeper(links: LinkUse) -> Result<Option<Arc<Sleeper>>, StartError> {
    match links {
        LinkUse::None => Ok(None),
        LinkUse::Outwards | LinkUse::Inwards => {
            Sleeper::new().map(|sleeper| Some(Arc::new(sleeper))).map_err(StartError::Sleeper)
        }
    }
}

/// What every process of the tree begins with: the rings, the arena, and what wakes whoever leads.
fn own_descriptors(
    segment: &Segment,
    arena: &ClientArena,
    sleeper: Option<&Sleeper>,
) -> Result<Vec<OwnedFd>, StartError> {
    let event = match sleeper {
        Some(sleeper) => clone_descriptor(&sleeper.event())?,
        None => Event::create()?,
    };
    Ok(vec![clone_descriptor(segment)?, clone_descriptor(arena)?, event])
}

fn clone_descriptor(memory: &impl AsFd) -> Result<OwnedFd, StartError> {
    let clone = memory.as_fd().try_clone_to_owned();
    clone.map_err(|source| StartError::Segment(SegmentError::Create { source }))
}
