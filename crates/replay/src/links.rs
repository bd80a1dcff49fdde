//! Links between the client and its nodes: a latency, and a bandwidth at each end.

use crate::costs::{Costs, transfer_ns};
use crate::random::Latencies;

/// Bytes of each message besides values: a header, a frame, and the overhead of the connection.
const FRAME_SIZE: u64 = 128;

/// One end of a link: the times at which it can send, and receive, the next byte.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    sends_at: u64,
    receives_at: u64,
}

/// The ends of all links. All nodes share the client's end.
#[derive(Debug)]
pub(crate) struct Links {
    client: End,
    nodes: Vec<End>,
    hop_ns: u64,
    rate: u64,
    latencies: Latencies,
    /// Bytes that went to nodes, and bytes that came from them.
    pub sent: u64,
    pub received: u64,
}

impl Links {
    pub fn new(nodes: u16, costs: &Costs, seed: u64) -> Self {
        Self {
            client: End::default(),
            nodes: vec![End::default(); usize::from(nodes)],
            hop_ns: costs.hop_ns,
            rate: costs.link_rate,
            latencies: Latencies::new(seed, costs.scatter),
            sent: 0,
            received: 0,
        }
    }

    /// Sends a message to a node. Returns the time of its arrival.
    pub fn send_to_node(&mut self, peer: u16, size: u64, now: u64) -> u64 {
        self.sent += FRAME_SIZE + size;
        let hop_ns = self.latencies.draw(self.hop_ns);
        let took_ns = transfer_ns(FRAME_SIZE + size, self.rate);
        let node = &mut self.nodes[usize::from(peer)];
        pass(&mut self.client.sends_at, &mut node.receives_at, (now, hop_ns, took_ns))
    }

    /// Sends a message to the client. Returns the time of its arrival.
    pub fn send_to_client(&mut self, peer: u16, size: u64, now: u64) -> u64 {
        self.received += FRAME_SIZE + size;
        let hop_ns = self.latencies.draw(self.hop_ns);
        let took_ns = transfer_ns(FRAME_SIZE + size, self.rate);
        let node = &mut self.nodes[usize::from(peer)];
        pass(&mut node.sends_at, &mut self.client.receives_at, (now, hop_ns, took_ns))
    }
}

/// Moves bytes between two ends that have limited bandwidth. Returns the arrival time of the last byte. Messages arrive in
/// the order in which they were sent, whatever their latency.
fn pass(sends_at: &mut u64, receives_at: &mut u64, (now, hop_ns, took_ns): (u64, u64, u64)) -> u64 {
    let begins_at = now.max(*sends_at);
    *sends_at = begins_at + took_ns;
    let first_at = (begins_at + hop_ns).max(*receives_at);
    *receives_at = first_at + took_ns;
    *receives_at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_two_nodes_leave_the_client_one_after_the_other() {
        let costs = Costs { hop_ns: 10, link_rate: 1_000_000_000, ..Costs::nothing() };
        let mut links = Links::new(2, &costs, 1);
        let took = |size| size + FRAME_SIZE;
        assert_eq!(links.send_to_node(0, 1_000, 5), 5 + 10 + took(1_000));
        assert_eq!(links.send_to_node(1, 500, 5), 5 + took(1_000) + 10 + took(500));
        assert_eq!(links.send_to_client(0, 0, 5), 5 + 10 + took(0), "the other way is free");
        assert_eq!((links.sent, links.received), (took(1_000) + took(500), took(0)));
    }
}
