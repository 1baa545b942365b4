// SPDX-License-Identifier: Apache-2.0
//! Medians and spreads of a few rounds.

/// The middle value, or the mean of the two middle ones; nothing of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied()?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = sorted.get(middle.checked_sub(1)?).copied()?;
    Some(f64::midpoint(lower, upper))
}

/// How far the rounds lie apart: (largest − smallest) / median.
#[must_use]
pub fn spread(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    match median(values) {
        Some(middle) if middle > 0.0 => (largest - smallest) / middle,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_the_spread_is_relative_to_it() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert!((spread(&[1.0, 2.0, 3.0]) - 1.0).abs() < 1e-9);
    }
}
