//! The watcher: a thread that sleeps on the keeper's socket and handles the keeper's events.

use std::sync::Arc;

use gristmill_keeper::Events;

use crate::client::Client;

/// Runs until the client's processes are gone.
pub(crate) fn run(client: &Arc<Client>, mut events: Events) {
    gristmill_sync::signals::block_all();
    loop {
        let event = events.next(None);
        let mut inner = client.lock();
        match event {
            Ok(Some(event)) => {
                inner.on_event(event);
                inner.settle();
            }
            Ok(None) => {}
            Err(_) if inner.tree.was_asked_to_end() => {
                inner.has_ended = true;
                inner.call_waiters(|_| true);
                drop(inner);
                client.tell_ended();
                return;
            }
            Err(lost) => {
                drop(inner);
                let commands = match client.relaunch() {
                    Ok((commands, fresh)) => {
                        events = fresh;
                        commands
                    }
                    Err(error) => {
                        let text =
                            format!("{lost}, and a new keeper could not be started: {error}");
                        return client.poison(&text);
                    }
                };
                inner = client.lock();
                inner.keeper_lost(commands);
                inner.settle();
            }
        }
        client.leave(inner, false);
    }
}
