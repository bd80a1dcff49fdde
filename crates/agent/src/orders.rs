//! Which workers could not be started here, and why: whoever asks for the same again is told so at once.
//!
//! A client hears it over its link too, but that word can be lost with the connection.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use gristmill_wire::peer::Ask;

/// Orders that are remembered: more than clients come in the time in which one asks again.
const KEPT_MAX: usize = 64;

/// What a client wants workers to be: the same words from the same client are the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order(u64);

impl Order {
    /// What a client of that name asks for. The name has its process: a program that is started again asks anew.
    pub fn of(client: &str, ask: &Ask) -> Self {
        let mut hasher = DefaultHasher::new();
        (client, &ask.program, &ask.world, ask.spawns_fresh).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The orders that failed last.
#[derive(Debug, Default)]
pub(crate) struct FailedOrders(VecDeque<(Order, String)>);

impl FailedOrders {
    /// No worker could be started for an order.
    pub fn note(&mut self, order: Order, text: &str) {
        self.0.retain(|(one, _)| *one != order);
        self.0.push_back((order, text.to_owned()));
        if self.0.len() > KEPT_MAX {
            self.0.pop_front();
        }
    }

    /// Why none can.
    pub fn why(&self, order: Order) -> Option<&str> {
        self.0.iter().find(|(one, _)| *one == order).map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::tests::ask;

    #[test]
    fn the_same_order_of_the_same_client_is_known_whatever_its_lease() {
        let mut failed = FailedOrders::default();
        failed.note(Order::of("n1:7", &ask(1, 2)), "no module");
        assert_eq!(failed.why(Order::of("n1:7", &ask(9, 1))), Some("no module"));
        assert_eq!(failed.why(Order::of("n1:8", &ask(1, 2))), None, "another process");
        let other = Ask { world: b"mended".to_vec(), ..ask(1, 2) };
        assert_eq!(failed.why(Order::of("n1:7", &other)), None, "another executor");
    }

    #[test]
    fn the_oldest_orders_are_forgotten() {
        let mut failed = FailedOrders::default();
        for number in 0..=KEPT_MAX {
            failed.note(Order::of(&number.to_string(), &ask(1, 1)), "no");
        }
        assert_eq!(failed.0.len(), KEPT_MAX);
        assert_eq!(failed.why(Order::of("0", &ask(1, 1))), None);
    }
}
