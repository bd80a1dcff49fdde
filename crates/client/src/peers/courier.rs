//! The courier: a thread that looks after links where workers have the bell.
//!
//! Whoever completes tasks sleeps on one thing. In a program whose workers are all on other nodes these are its links, and
//! there is no courier. On a node it is the workers' bell: what comes over links wakes the courier, and answers leave with
//! whoever drains the rings.

use std::sync::Arc;
use std::time::Duration;

use gristmill_transport::Sleeper;

use super::intake::LinkWork;
use crate::client::Client;

/// The longest sleep: whatever was missed is found after it.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Runs until the client has ended.
pub(crate) fn run(client: &Arc<Client>, sleeper: &Sleeper) {
    gristmill_sync::signals::block_all();
    loop {
        let mut inner = client.lock();
        if inner.has_ended {
            if let Some(taking) = &mut inner.lanes.taking {
                taking.close();
            }
            return;
        }
        let now = inner.lanes.read_clock();
        inner.drain_links();
        inner.take_depot_news(now);
        inner.settle();
        inner.flush_links(now);
        let wake = inner.next_link_wake().unwrap_or(u64::MAX);
        let has_more = std::mem::take(&mut inner.lanes.links.has_more);
        let limit = Duration::from_nanos(wake.saturating_sub(now)).min(SLEEP_MAX);
        client.leave(inner, false);
        if has_more {
            // What was left may be where the sleeper does not see it. Others wait for the mutex.
            std::thread::yield_now();
            continue;
        }
        let _ = sleeper.sleep(&mut Vec::new(), Some(limit));
    }
}
