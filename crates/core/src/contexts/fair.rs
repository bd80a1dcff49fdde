//! Workers divided fairly: nobody gets more than he can use, and nobody could get more without somebody who has less.

/// How many of `total` workers each gets who could use so many. What is left over after equal shares goes to the first ones.
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

#[cfg(test)]
mod tests {
    use super::divide;
    use proptest::prelude::*;

    #[test]
    fn who_needs_little_gets_it_and_the_others_share_the_rest() {
        assert_eq!(divide(&[1, 9, 9], 9), [1, 4, 4]);
        assert_eq!(divide(&[9, 9, 9], 4), [2, 1, 1]);
        assert_eq!(divide(&[0, 3], 9), [0, 3]);
        assert_eq!(divide(&[5, 5, 5], 2), [1, 1, 0]);
        assert_eq!(divide(&[], 4), [0; 0]);
    }

    proptest! {
        #[test]
        fn nothing_is_wasted_and_nobody_is_worse_off_than_another(
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
    }
}
