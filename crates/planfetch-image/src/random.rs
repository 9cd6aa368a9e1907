//! Random numbers of a sample's own generator.

use planfetch_loader::rand_chacha::ChaCha8Rng;
use planfetch_loader::rand_chacha::rand_core::Rng;

/// Returns a number in `low..high`, each as likely as any other; `low` when they are the same.
pub(crate) fn uniform(rng: &mut ChaCha8Rng, [low, high]: [f64; 2]) -> f64 {
    // OK because 53 bits are exact in a double.
    let unit = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    low + (high - low) * unit
}

/// Returns true with probability `p`.
pub(crate) fn happens(rng: &mut ChaCha8Rng, p: f64) -> bool {
    uniform(rng, [0.0, 1.0]) < p
}

/// Returns a number below `n`, which is not 0. The bias, less than `n / 2^64`, can't be seen.
pub(crate) fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    // OK because the product shifted by 64 bits is below `n`.
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// Returns a number in `low..=high`.
pub(crate) fn between(rng: &mut ChaCha8Rng, low: usize, high: usize) -> usize {
    low + below(rng, high - low + 1)
}

/// Returns a number of the standard normal distribution, by Marsaglia's polar method.
pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    loop {
        let (x, y) = (uniform(rng, [-1.0, 1.0]), uniform(rng, [-1.0, 1.0]));
        let square = x * x + y * y;
        if 0.0 < square && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use planfetch_loader::rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn numbers_have_the_mean_and_spread_of_their_distribution() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let n = 20_000;
        let moments = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / n as f64;
            (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64)
        };
        let (mean, variance) = moments((0..n).map(|_| uniform(&mut rng, [-3.0, 5.0])).collect());
        assert!((mean - 1.0).abs() < 0.08 && (variance - 64.0 / 12.0).abs() < 0.15, "{mean} {variance}");
        let (mean, variance) = moments((0..n).map(|_| normal(&mut rng)).collect());
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
        let mut counts = [0; 5];
        (0..n).for_each(|_| counts[between(&mut rng, 3, 7) - 3] += 1);
        assert!(counts.iter().all(|count| (3_700..4_300).contains(count)), "{counts:?}");
        assert_eq!((0..n).filter(|_| happens(&mut rng, 0.0)).count(), 0);
        assert_eq!((0..n).filter(|_| happens(&mut rng, 1.0)).count(), n);
        assert_eq!(uniform(&mut rng, [2.0, 2.0]).to_bits(), 2.0_f64.to_bits());
    }
}
