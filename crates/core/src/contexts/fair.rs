//! Fair division of workers and other resources: each party gets at most what it can use, and could get more only from a
//! party that has less.

use gristmill_wire::ResourceRequest;

use crate::demands::{FreeResources, Kinds};

/// The requests of one party, granted one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FairShareRequest {
    /// Up to this many workers, each of which needs these resources.
    Workers(u32, ResourceRequest),
    /// Resources that each of several tasks needs besides CPU slots.
    Tasks(Vec<ResourceRequest>),
}

/// CPU slots that can be allocated.
#[derive(Debug, Clone, Copy)]
pub(super) struct AvailableSlots {
    pub ordinary: u32,
    /// Spare slots. Each is enough for one worker, whatever the worker needs, because others wait while it runs.
    pub spare: u32,
}

/// Divides `total` workers among parties, each of which can use at most its number in `demands`. What is left over after
/// equal shares goes to the first parties.
pub(super) fn divide(demands: &[u32], total: u32) -> Vec<u32> {
    let mut shares = vec![0; demands.len()];
    let mut left = total;
    loop {
        let short: Vec<usize> =
            (0..demands.len()).filter(|&place| shares[place] < demands[place]).collect();
        let Some(each) = left.checked_div(u32::try_from(short.len()).unwrap_or(u32::MAX)) else {
            return shares;
        };
        if each == 0 {
            short.into_iter().take(left as usize).for_each(|place| shares[place] += 1);
            return shares;
        }
        for place in short {
            let more = each.min(demands[place] - shares[place]);
            shares[place] += more;
            left -= more;
        }
    }
}

/// Allocates `places` and the other resources in `left`. The party with the fewest grants, of equal ones the first, gets
/// its next request if the resources for it are free. A party that would get nothing because CPU slots are short gets a
/// spare slot, if it needs any other resource. Returns the numbers of the requests that each party gets, in order.
pub(super) fn allocate(
    wishes: &[FairShareRequest],
    mut places: AvailableSlots,
    mut left: FreeResources,
) -> Vec<Vec<u32>> {
    let mut shares: Vec<Vec<u32>> = wishes.iter().map(|_| Vec::new()).collect();
    let mut next = vec![0u32; wishes.len()];
    let mut short = vec![Kinds::default(); wishes.len()];
    loop {
        let poorest = (0..wishes.len())
            .filter(|&who| next[who] < wishes[who].len())
            .min_by_key(|&who| shares[who].len());
        let Some(who) = poorest else { return shares };
        let demand = wishes[who].get(next[who]);
        let cost = wishes[who].places(&demand);
        let kinds = Kinds::besides_places(&demand);
        if short[who].meets(kinds) {
            // Tasks are granted in order: no task overtakes one that needs the same kind of resource.
            next[who] += 1;
            continue;
        }
        let has_places = cost <= places.ordinary;
        let needs_spare = !has_places && shares[who].is_empty() && !demand.is_none();
        let could_sit = has_places || (needs_spare && places.spare > 0);
        match left.find(&demand, std::iter::empty()).filter(|_| could_sit) {
            Some(devices) => {
                places.ordinary -= if needs_spare { 0 } else { cost };
                places.spare -= u32::from(needs_spare);
                left.take(&demand, devices);
                shares[who].push(next[who]);
                next[who] += 1;
            }
            // All other requests of this party equal this one.
            None if matches!(wishes[who], FairShareRequest::Workers(..)) => next[who] = u32::MAX,
            None => {
                short[who].add(kinds);
                next[who] += 1;
            }
        }
    }
}

impl FairShareRequest {
    fn len(&self) -> u32 {
        match self {
            Self::Workers(count, _) => *count,
            Self::Tasks(demands) => u32::try_from(demands.len()).unwrap_or(u32::MAX),
        }
    }

    fn get(&self, number: u32) -> ResourceRequest {
        match self {
            Self::Workers(_, demand) => *demand,
            Self::Tasks(demands) => demands[number as usize],
        }
    }

    /// Returns the number of CPU slots that a request needs. The slots of tasks are requested with the workers that fill
    /// them.
    fn places(&self, demand: &ResourceRequest) -> u32 {
        match self {
            Self::Workers(..) => demand.places().into(),
            Self::Tasks(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Supply;
    use proptest::prelude::*;

    #[test]
    fn who_needs_little_gets_it_and_the_others_share_the_rest() {
        assert_eq!(divide(&[1, 9, 9], 9), [1, 4, 4]);
        assert_eq!(divide(&[9, 9, 9], 4), [2, 1, 1]);
        assert_eq!(divide(&[0, 3], 9), [0, 3]);
        assert_eq!(divide(&[5, 5, 5], 2), [1, 1, 0]);
        assert_eq!(divide(&[], 4), [0; 0]);
    }

    fn counts(wishes: &[FairShareRequest], ordinary: u32, supply: Supply) -> Vec<usize> {
        let places = AvailableSlots { ordinary, spare: 0 };
        allocate(wishes, places, FreeResources::new(&supply)).iter().map(Vec::len).collect()
    }

    const GPU: ResourceRequest = ResourceRequest { gpus: 1000, ..ResourceRequest::NONE };

    #[test]
    fn what_is_short_is_shared_and_the_rest_goes_to_those_who_do_not_need_it() {
        let supply = Supply { memory: 100, gpus: 0b111 };
        let plain = FairShareRequest::Workers(9, ResourceRequest::NONE);
        let wishes =
            [FairShareRequest::Workers(9, GPU), FairShareRequest::Workers(9, GPU), plain.clone()];
        assert_eq!(counts(&wishes, 8, supply), [2, 1, 5]);
        let wide =
            FairShareRequest::Workers(9, ResourceRequest { cores: 3, ..ResourceRequest::NONE });
        assert_eq!(counts(&[wide, plain], 8, supply), [2, 2]);
    }

    #[test]
    fn a_task_that_is_too_large_holds_up_those_behind_it_that_need_the_same() {
        let supply = Supply { memory: 100, gpus: 0b1 };
        let [large, small] =
            [80, 20].map(|memory| ResourceRequest { memory, ..ResourceRequest::NONE });
        let tasks = FairShareRequest::Tasks(vec![large, large, GPU, small]);
        let none = AvailableSlots { ordinary: 0, spare: 0 };
        assert_eq!(allocate(&[tasks], none, FreeResources::new(&supply)), [vec![0, 2]]);
    }

    #[test]
    fn a_context_without_a_cpu_slot_gets_a_spare_one() {
        let supply = Supply { memory: 100, gpus: 0b11 };
        let wide = FairShareRequest::Workers(9, ResourceRequest { cores: 3, ..GPU });
        let plain = FairShareRequest::Workers(9, ResourceRequest::NONE);
        let places = AvailableSlots { ordinary: 2, spare: 1 };
        let shares = allocate(&[wide.clone(), wide, plain], places, FreeResources::new(&supply));
        assert_eq!(shares, [vec![0], vec![], vec![0, 1]]);
    }

    proptest! {
        #[test]
        fn nothing_is_wasted_and_no_context_is_worse_off_than_another(
            demands in prop::collection::vec(0u32..20, 0..8), total in 0u32..40,
        ) {
            let shares = divide(&demands, total);
            let wanted: u32 = demands.iter().sum();
            prop_assert_eq!(shares.iter().sum::<u32>(), wanted.min(total));
            for (&share, &demand) in shares.iter().zip(&demands) {
                prop_assert!(share <= demand);
                let most = shares.iter().max().copied().unwrap_or(0);
                prop_assert!(share == demand || share + 1 >= most);
            }
        }

        #[test]
        fn workers_alone_are_dealt_as_they_are_divided(
            demands in prop::collection::vec(0u32..20, 0..8), total in 0u32..40,
        ) {
            let wishes: Vec<FairShareRequest> =
                demands.iter().map(|&count| FairShareRequest::Workers(count, ResourceRequest::NONE)).collect();
            let shares: Vec<u32> = divide(&demands, total);
            let dealt = counts(&wishes, total, Supply::default());
            prop_assert_eq!(dealt, shares.iter().map(|&one| one as usize).collect::<Vec<_>>());
        }
    }
}
