//! Medians, and ratios of what was measured in the same rounds.

/// The middle value; of an even number, the mean of the two in the middle. `None` of none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], upper)
    } else {
        upper
    })
}

/// The median of the ratios of each round: what slows the whole machine down slows both sides.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value_in_any_order() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn one_slow_round_does_not_move_the_median() {
        assert_eq!(median(&[100.0, 101.0, 3.0, 102.0, 99.0]), Some(100.0));
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // Twice as fast in each round, on a machine that gets slower.
        assert_eq!(ratio(&[200.0, 20.0, 2.0], &[100.0, 10.0, 1.0]), Some(2.0));
        // The ratio of the medians would be 1.
        assert_eq!(ratio(&[1.0, 4.0, 6.0], &[4.0, 2.0, 6.0]), Some(1.0));
        assert_eq!(ratio(&[1.0, 4.0, 9.0], &[4.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(ratio(&[], &[1.0]), None);
    }
}
