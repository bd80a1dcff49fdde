//! Faults of a cluster.

use super::network::look;
use super::node::Condition;
use super::run::SimCluster;

impl SimCluster {
    /// Injects a fault into the cluster, if the seed says so; returns whether it did.
    pub(super) fn befall(&mut self) -> bool {
        let is_due = self.faults.left > 0 && self.random.below(1_000) < self.plan.fault_rate;
        if !is_due {
            return false;
        }
        self.faults.left -= 1;
        self.faults.is_troubled = true;
        let place = self.random.index(self.nodes.len());
        match self.random.below(10) {
            0..=2 => self.cut(place),
            3 | 4 => self.part(place),
            5 => self.freeze(place),
            6 => self.kill_agent(place),
            7 => self.power_off(place),
            8 => self.drain(place),
            _ => self.trouble_client(),
        }
        true
    }

    /// Draws the true time at which a fault that begins now ends.
    fn draw_end(&mut self) -> u64 {
        self.now() + 1 + self.random.below(self.plan.span_ns())
    }

    fn cut(&mut self, place: usize) {
        let longest_ns = if self.random.chance(50) { 0 } else { self.plan.span_ns() };
        let lines = look(&self.air).lines_of(place);
        for line in lines {
            self.log(|| format!("cut line {line} of node {place}"));
            look(&self.air).cut(line, longest_ns);
        }
        look(&self.air).cut_wires(place, longest_ns);
    }

    fn part(&mut self, place: usize) {
        let until = self.draw_end();
        self.log(|| format!("node {place} is apart until {}", until / 1_000));
        look(&self.air).set_apart(place, true);
        self.faults.apart_until[place] = until;
    }

    fn freeze(&mut self, place: usize) {
        let until = self.draw_end();
        let with_workers = self.random.chance(30);
        if self.nodes[place].runs() {
            self.log(|| {
                format!("node {place} freezes until {}, all {with_workers}", until / 1_000)
            });
            self.nodes[place].condition = Condition::Frozen { until, with_workers };
        }
    }

    fn kill_agent(&mut self, place: usize) {
        let until = self.draw_end();
        let workers_until = self.now() + self.random.below(5_000_000);
        if self.nodes[place].condition != Condition::Gone && !self.is_down(place) {
            self.log(|| format!("the agent of node {place} is killed"));
            let condition = Condition::Down { until, is_silent: false };
            self.nodes[place].die(condition, workers_until);
        }
    }

    fn is_down(&self, place: usize) -> bool {
        matches!(self.nodes[place].condition, Condition::Down { .. })
    }

    fn power_off(&mut self, place: usize) {
        let until = self.draw_end();
        if self.nodes[place].condition != Condition::Gone && !self.is_down(place) {
            self.log(|| format!("node {place} has no power until {}", until / 1_000));
            look(&self.air).silence(place, 1);
            look(&self.air).silence_wires(place);
            let now = self.now();
            self.nodes[place].die(Condition::Down { until, is_silent: true }, now);
        }
    }

    /// Lets the agent accept no more tasks and end when its running tasks have ended.
    fn drain(&mut self, place: usize) {
        let until = self.draw_end();
        if self.nodes[place].runs() && self.nodes[place].drains_until.is_none() {
            self.log(|| format!("node {place} drains until {}", until / 1_000));
            self.nodes[place].drain(until);
        }
    }

    /// Ends a draining node once it has drained or its time is over; returns whether it did.
    pub(super) fn end_drained(&mut self, place: usize) -> bool {
        let (node, now) = (&self.nodes[place], self.now());
        let Some(until) = node.drains_until else { return false };
        let is_drained = node.server.is_drained();
        self.check_draining(place);
        if until > now && !is_drained {
            return false;
        }
        self.log(|| format!("node {place} has drained: {is_drained}"));
        self.check_drained(place);
        self.nodes[place].stop(now);
        true
    }

    /// Freezes the client for a while, or ends it.
    fn trouble_client(&mut self) {
        let until = self.draw_end();
        let dies = self.plan.client_dies && self.random.chance(50);
        if !self.client.runs() {
            return;
        }
        if dies {
            let is_silent = self.random.chance(30);
            self.log(|| format!("the client dies, silently: {is_silent}"));
            self.end_client(is_silent);
        } else {
            self.log(|| format!("the client freezes until {}", until / 1_000));
            self.client.condition = Condition::Frozen { until, with_workers: false };
        }
    }

    /// Ends the faults whose time is over.
    pub(super) fn recover(&mut self) {
        let now = self.now();
        for place in 0..self.nodes.len() {
            if self.faults.apart_until[place] <= now && look(&self.air).is_apart(place) {
                self.log(|| format!("node {place} is back"));
                look(&self.air).set_apart(place, false);
            }
            self.recover_node(place, now);
            self.refuse_arrivals(place);
        }
        if let Condition::Frozen { until, .. } = self.client.condition
            && until <= now
        {
            self.log(|| "the client goes on".to_owned());
            self.client.condition = Condition::Well;
        }
    }

    fn recover_node(&mut self, place: usize, now: u64) {
        match self.nodes[place].condition {
            Condition::Frozen { until, .. } if until <= now => {
                self.log(|| format!("node {place} goes on"));
                self.nodes[place].condition = Condition::Well;
                self.nodes[place].troubled_at = now;
                for handle in self.nodes[place].engines.borrow().iter() {
                    handle.note_thaw();
                }
            }
            Condition::Down { until, is_silent } if until <= now => {
                self.log(|| format!("node {place} is up"));
                if is_silent {
                    look(&self.air).forget_old(place, 1);
                    look(&self.air).forget_wires(place);
                }
                self.nodes[place].restart();
            }
            // The program that placed the agent places another one as long as the client runs.
            Condition::Gone if self.client.condition != Condition::Gone => {
                let until = self.draw_end();
                self.nodes[place].condition = Condition::Down { until, is_silent: false };
            }
            _ => {}
        }
    }

    /// Refuses connections to machines whose process is gone, as their system would.
    fn refuse_arrivals(&self, place: usize) {
        let condition = self.nodes[place].condition;
        let is_deaf =
            matches!(condition, Condition::Gone | Condition::Down { is_silent: false, .. });
        let sides = [(0, self.client.condition == Condition::Gone), (1, is_deaf)];
        for (side, _) in sides.into_iter().filter(|(_, is_deaf)| *is_deaf) {
            let mut air = look(&self.air);
            air.arrivals(place, side).into_iter().for_each(|line| air.refuse(line));
        }
        if !matches!(condition, Condition::Down { is_silent: true, .. }) {
            let engines = self.nodes[place].engines.borrow();
            let is_there = |lease| engines.iter().any(|one| one.number == lease && one.is_alive());
            look(&self.air).refuse_wires(place, is_there);
        }
    }

    /// Returns the true time at which the next fault ends.
    pub(super) fn next_recovery(&self) -> Option<u64> {
        let of = |condition: &Condition| match condition {
            Condition::Frozen { until, .. } | Condition::Down { until, .. } => Some(*until),
            Condition::Well | Condition::Gone => None,
        };
        let nodes = self.nodes.iter().filter_map(|node| of(&node.condition));
        let drains = self.nodes.iter().filter_map(|node| node.drains_until);
        let apart = self.faults.apart_until.iter().copied().chain(drains);
        let all = nodes.chain(apart).chain(of(&self.client.condition));
        all.filter(|&until| until > self.now() && until != u64::MAX).min()
    }
}
